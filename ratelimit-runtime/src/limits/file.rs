//! Finds and reads the limits file.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
};

use ratelimit_spec::{LimitsFile, Step};

use crate::SetupError;

/// The file that is looked for in the working directory.
const NAME: &str = "ratelimit.yaml";
/// The variable that names another one.
pub(super) const VARIABLE: &str = "RATELIMIT_LIMITS";
/// Larger files are not read at all; the grammar's own limit is lower.
const MAX_BYTES: u64 = 1024 * 1024;

/// Where limits are read from.
#[derive(Clone, Default)]
pub(crate) enum Source {
    /// The environment's file, else the working directory's, if there is one.
    #[default]
    Found,
    /// This file, which must exist.
    Path(PathBuf),
    /// This text.
    Text(String),
    /// Nowhere.
    Nothing,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found => f.write_str("Found"),
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            // Its store may have a password.
            Self::Text(_) => f.write_str("Text(..)"),
            Self::Nothing => f.write_str("Nothing"),
        }
    }
}

/// A limits file that was read, with the name it goes by in messages.
#[derive(Clone, Debug)]
pub(crate) struct LoadedFile {
    shown: String,
    pub(crate) limits: LimitsFile,
}

impl Source {
    /// The file, where the source is one.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Path(path) => Some(path.clone()),
            Self::Found => match env::var_os(VARIABLE) {
                Some(path) if !path.is_empty() => Some(path.into()),
                _ => Path::new(NAME).exists().then(|| NAME.into()),
            },
            Self::Text(_) | Self::Nothing => None,
        }
    }

    /// Reads it. When it is refused, what `check` says of the rest is part of the report.
    pub(super) fn load(
        &self,
        check: &dyn Fn(&LoadedFile) -> Vec<String>,
    ) -> Result<Option<LoadedFile>, SetupError> {
        if let Self::Text(text) = self {
            return LoadedFile::parse("limits", text, check).map(Some);
        }
        let Some(path) = self.path() else {
            return Ok(None);
        };
        let shown = path.display().to_string();
        let text = read(&path).map_err(|why| SetupError::one(format!("{shown}: {why}")))?;
        LoadedFile::parse(&shown, &text, check).map(Some)
    }
}

fn read(path: &Path) -> Result<String, String> {
    let length = fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.len();
    if length > MAX_BYTES {
        return Err(format!("{length} bytes are too many for a limits file"));
    }
    let bytes = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
}

impl LoadedFile {
    /// Reads a text; when it is refused, what `check` says of the rest is part of the report.
    fn parse(
        shown: &str,
        text: &str,
        check: &dyn Fn(&Self) -> Vec<String>,
    ) -> Result<Self, SetupError> {
        let (limits, problems) = LimitsFile::parse_in_part(text);
        let file = Self { shown: shown.to_owned(), limits };
        if problems.is_empty() {
            return Ok(file);
        }
        let mut problems: Vec<_> =
            problems.iter().map(|problem| format!("{shown}:{problem}")).collect();
        problems.extend(check(&file));
        Err(SetupError::new(problems))
    }

    /// `file:line:column` of a place in it.
    pub(super) fn place(&self, path: &[Step<'_>]) -> String {
        match self.limits.position(path) {
            Some(at) => format!("{}:{}:{}", self.shown, at.line, at.column),
            None => self.shown.clone(),
        }
    }

    /// The same of one field of a limiter, or of the limiter where the field is not in its entry.
    pub(super) fn place_of(&self, key: &str, field: Option<&str>) -> String {
        let entry = [Step::Key("limiters"), Step::Key(key)];
        let Some(field) = field else {
            return self.place(&entry);
        };
        let path = [entry[0], entry[1], Step::Key(field)];
        if self.limits.position(&path).is_some() { self.place(&path) } else { self.place(&entry) }
    }
}
