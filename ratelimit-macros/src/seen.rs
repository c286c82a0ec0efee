//! State shared by all expansions of a crate.
//!
//! rustc expands all macros of a crate in one process, so a static can hold it. The macro server of an editor runs for
//! hours, expands parts of many crates repeatedly, and may not know their source locations: nothing is recorded there,
//! and each annotation is checked on its own.

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use proc_macro2::Span;
use ratelimit_spec::Template;

/// Programs that compile one crate and end.
const COMPILERS: [&str; 3] = ["rustc", "rustdoc", "clippy-driver"];

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

#[derive(Default)]
struct Seen {
    /// The first location of everything that does not belong to one annotation.
    said: HashMap<String, Place>,
    /// In the order of expansion, each with its location.
    keys: Vec<(Place, Template)>,
}

/// A location in a source file.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    line: usize,
    column: usize,
    /// Compared last: most keys of a crate are in few files.
    file: String,
}

impl Place {
    /// Returns `None` in editors, in unit tests of this crate, and for code without a file.
    fn of(span: Span) -> Option<Self> {
        if !proc_macro::is_available() || !is_a_compiler() {
            return None;
        }
        let span = span.unwrap();
        span.local_file()?;
        Some(Self { file: span.file(), line: span.line(), column: span.column() })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Returns whether this annotation is the first one to say what all annotations share, such as a mistake; always
/// if locations are unknown.
pub(crate) fn is_first(saying: &str, at: Span) -> bool {
    let Some(place) = Place::of(at) else { return true };
    let mut seen = seen();
    let seen = seen.get_or_insert_default();
    *seen.said.entry(saying.to_owned()).or_insert_with(|| place.clone()) == place
}

/// Records a key, and returns an earlier one that can render to the same name, with its location.
pub(crate) fn overlapping(key: &Template, at: Span) -> Option<(String, Place)> {
    let place = Place::of(at)?;
    let mut seen = seen();
    let keys = &mut seen.get_or_insert_default().keys;
    // A location has one key, even if it is expanded repeatedly.
    keys.retain(|(other, _)| *other != place);
    let found = keys.iter().find(|(_, other)| other.text() != key.text() && other.overlaps(key));
    let found = found.map(|(place, other)| (other.text().to_owned(), place.clone()));
    if found.is_none() {
        // An invalid key must not cause further errors.
        keys.push((place, key.clone()));
    }
    found
}

fn seen() -> MutexGuard<'static, Option<Seen>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether this process compiles one crate and ends.
pub(crate) fn is_a_compiler() -> bool {
    let program = env::current_exe().ok();
    let name = program.as_deref().and_then(|program| program.file_stem()?.to_str());
    name.is_some_and(|name| COMPILERS.contains(&name))
}
