//! Finds and reads the limits file.

use std::{
    env, fmt,
    fs::{self, File},
    io::Read,
    path::{self, Path, PathBuf},
    sync::Arc,
};

use once_cell::sync::OnceCell;

use ratelimit_spec::{self as spec, LimitsFile, Position, Step};

use crate::{Problem, ProblemKind, SetupError, error::Place};

/// The file name that is searched in the working directory.
const NAME: &str = "ratelimit.yaml";
/// The variable that names another file.
pub(super) const VARIABLE: &str = "RATELIMIT_LIMITS";
/// Larger files are not read at all.
const MAX_BYTES: u64 = ratelimit_spec::limits_file::MAX_BYTES as u64;

/// The source that limits are read from.
#[derive(Clone)]
pub(crate) enum Source {
    /// The environment's file, else the file in the working directory, if one exists. Once found it must exist,
    /// even if the working directory changes.
    Found(Arc<OnceCell<PathBuf>>),
    /// This file, which must exist.
    Path(PathBuf),
    /// This text.
    Text(String),
    /// No source.
    Nothing,
}

impl Default for Source {
    fn default() -> Self {
        Self::Found(Arc::default())
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(_) => f.write_str("Found"),
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            // The text may contain the store's password.
            Self::Text(_) => f.write_str("Text(..)"),
            Self::Nothing => f.write_str("Nothing"),
        }
    }
}

/// A limits file that was read, with its name for messages.
#[derive(Clone, Debug)]
pub(crate) struct LoadedFile {
    shown: PathBuf,
    pub(crate) limits: LimitsFile,
}

/// The settings that are only read at startup, as written: those that the program does not choose itself.
pub(super) struct Fixed(Vec<Written>);

type Written = (&'static str, Option<String>);

impl Fixed {
    pub(super) fn of(file: Option<&LimitsFile>, chosen: &[&str]) -> Self {
        let mut fixed = Vec::from(Self::all(file));
        fixed.retain(|(setting, _)| !chosen.contains(setting));
        Self(fixed)
    }

    fn all(file: Option<&LimitsFile>) -> [Written; 5] {
        [
            ("store", file.and_then(|file| file.store.clone())),
            ("tls_ca", file.and_then(|file| file.tls_ca.clone())),
            ("key_prefix", file.and_then(|file| file.key_prefix.clone())),
            ("deadline", file.and_then(|file| Some(format!("{:?}", file.deadline?)))),
            ("max_remembered", file.and_then(|file| Some(file.max_remembered?.to_string()))),
        ]
    }

    /// Returns the settings that differ in another reading of the file.
    pub(super) fn changed(&self, file: Option<&LimitsFile>) -> Vec<&'static str> {
        let now = Self::all(file);
        self.0.iter().filter(|was| !now.contains(was)).map(|(setting, _)| *setting).collect()
    }
}

impl Source {
    /// Returns the path, if the source is a file.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Path(path) => Some(path.clone()),
            Self::Found(found) => found.get_or_try_init(|| find().ok_or(())).ok().cloned(),
            Self::Text(_) | Self::Nothing => None,
        }
    }

    /// Reads the source. The error includes what `check` finds in the rest.
    pub(super) fn load(
        &self,
        check: &dyn Fn(&LoadedFile) -> Vec<Problem>,
    ) -> Result<Option<LoadedFile>, SetupError> {
        if let Self::Text(text) = self {
            return LoadedFile::parse("limits".into(), text, check).map(Some);
        }
        let Some(path) = self.path() else {
            return Ok(None);
        };
        let text = read(&path)?;
        let file = LoadedFile::parse(path, &text, check)?;
        // A program that is interrupted while it saves the file, or a full disk, leaves it empty.
        if file.limits.is_empty() {
            let message = "the file is empty; write `{}` if it sets nothing".to_owned();
            return Err(Problem::new(ProblemKind::File, message)
                .at(Place::file(&file.shown))
                .alone());
        }
        Ok(Some(file))
    }
}

fn find() -> Option<PathBuf> {
    let path = match env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => path.into(),
        // A link that leads nowhere is an error when it is read.
        None => fs::symlink_metadata(NAME).is_ok().then(|| PathBuf::from(NAME))?,
    };
    // Absolute, so that messages identify the file.
    Some(path::absolute(&path).unwrap_or(path))
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<String, SetupError> {
    if path.as_os_str().is_empty() {
        let message = "the path of the limits file is empty; write that of a YAML file".to_owned();
        return Err(Problem::new(ProblemKind::File, message).alone());
    }
    let place = || Place::file(path);
    let unreadable = |error| Problem::unreadable(place(), error).alone();
    let refused = |message: String| Problem::new(ProblemKind::File, message).at(place()).alone();
    let about = fs::metadata(path).map_err(unreadable)?;
    // Reading a device or a pipe may never end.
    if !about.is_file() {
        return Err(refused("not a regular file; write the path of a YAML file".to_owned()));
    }
    let too_long =
        |length| refused(format!("the file is {length} bytes long; write at most {MAX_BYTES}"));
    if about.len() > MAX_BYTES {
        return Err(too_long(about.len()));
    }
    let (file, mut bytes) = (File::open(path).map_err(unreadable)?, Vec::new());
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_long(bytes.len() as u64));
    }
    spec::limits_file::decode(bytes).map_err(|problem| {
        let place = place_in(path, problem.position);
        Problem::new(ProblemKind::File, problem.message).at(place).alone()
    })
}

fn place_in(path: &Path, position: Option<Position>) -> Place {
    let place = Place::file(path);
    let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    match position {
        Some(at) => place.line(number(at.line)).column(number(at.column)),
        None => place,
    }
}

impl LoadedFile {
    /// Parses a text. The error includes what `check` finds in the rest.
    fn parse(
        shown: PathBuf,
        text: &str,
        check: &dyn Fn(&Self) -> Vec<Problem>,
    ) -> Result<Self, SetupError> {
        let (limits, problems) = LimitsFile::parse_in_part(text);
        let file = Self { shown, limits };
        if problems.is_empty() {
            return Ok(file);
        }
        let mut problems: Vec<Problem> =
            problems.into_iter().map(|problem| file.problem(problem)).collect();
        problems.extend(check(&file));
        problems.sort_by_key(|problem| problem.line().unwrap_or((u32::MAX, None)));
        Err(SetupError::new(problems))
    }

    fn problem(&self, problem: spec::Problem) -> Problem {
        let kind = if problem.is_syntax { ProblemKind::Syntax } else { ProblemKind::Setting };
        let context = problem.position.map(|at| self.limits.context(at)).unwrap_or_default();
        let mut found = Problem::new(kind, problem.message).at(self.at(problem.position));
        if let Some(limiter) = context.limiter {
            found = found.of(limiter);
        }
        match context.setting {
            Some(setting) => found.about(setting),
            None => found,
        }
    }

    fn at(&self, position: Option<Position>) -> Place {
        place_in(&self.shown, position)
    }

    /// Returns the `file:line:column` of an element.
    pub(super) fn place(&self, path: &[Step<'_>]) -> Place {
        self.at(self.limits.position(path))
    }

    /// Returns the position of one field of `default`.
    pub(super) fn place_of_default(&self, field: &str) -> Place {
        self.place(&[Step::Key("default"), Step::Key(field)])
    }

    /// Returns the position of one field of a limiter, or of the limiter if its entry does not have the field.
    pub(super) fn place_of(&self, key: &str, field: Option<&str>) -> Place {
        let entry = [Step::Key("limiters"), Step::Key(key)];
        let Some(field) = field else {
            return self.place(&entry);
        };
        let path = [entry[0], entry[1], Step::Key(field)];
        if self.limits.position(&path).is_some() { self.place(&path) } else { self.place(&entry) }
    }
}
