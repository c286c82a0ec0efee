//! Files already read, so that a thousand annotations parse the limits file once.
//!
//! An entry is valid as long as the file looks unchanged: editors keep the macro's process alive for
//! hours.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use ratelimit_spec::limits_file::{MAX_BYTES, decode};
use ratelimit_spec::{LimitsFile, Problem};

/// The limits, or the problems of the file.
pub(crate) type Contents = Result<LimitsFile, Vec<Problem>>;

/// Enough for the parser to see that a file is too large.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

struct Cached {
    stamp: Stamp,
    contents: Arc<Contents>,
}

static FILES: Mutex<Option<HashMap<PathBuf, Cached>>> = Mutex::new(None);

/// Reads the file, or returns its cached contents.
pub(super) fn read(path: &Path) -> io::Result<Arc<Contents>> {
    let metadata = fs::metadata(path)?;
    // Reading a device or a pipe may never end.
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut file = File::open(path)?;
    let stamp = Stamp { modified: metadata.modified().ok(), bytes: metadata.len() };
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let files = files.get_or_insert_default();
    if let Some(cached) = files.get(path).filter(|cached| cached.stamp == stamp) {
        return Ok(Arc::clone(&cached.contents));
    }
    let contents = Arc::new(parse(&mut file)?);
    files.insert(path.to_owned(), Cached { stamp, contents: Arc::clone(&contents) });
    Ok(contents)
}

fn parse(file: &mut File) -> io::Result<Contents> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    // The parser reports the size first; the end may be in the middle of a character.
    if bytes.len() > MAX_BYTES {
        return Ok(LimitsFile::parse(&String::from_utf8_lossy(&bytes)));
    }
    Ok(decode(bytes).map_err(|problem| vec![problem]).and_then(|text| LimitsFile::parse(&text)))
}
