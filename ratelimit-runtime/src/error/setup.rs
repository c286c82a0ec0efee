//! Setup errors: every problem, with its position.

use std::{
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ratelimit_spec::write_on_one_line;

use super::StoreError;

/// The error of a failed setup, with every problem that was found. Its [`Debug`](fmt::Debug) output
/// is its text, so that a `main` that returns it shows the problems line by line.
///
/// ```text
/// rate limits could not be set up, 2 problems:
///   ratelimit.yaml:12:7: unknown field `brust` in limiter `checkout`; did you mean `burst`?
///   src/orders.rs:40: `orders:{user_id}` cannot reject calls, but ratelimit.yaml:4:11 sets `wait: none`; ..
/// ```
///
/// [`source`](Error::source) is the first problem's.
#[derive(Clone)]
pub struct SetupError {
    problems: Arc<[Problem]>,
}

impl SetupError {
    pub(crate) fn new(problems: Vec<Problem>) -> Self {
        Self { problems: problems.into() }
    }

    /// Creates the error of a store that cannot be used as it is set up.
    pub(crate) fn of_store(error: StoreError) -> Self {
        Problem::new(ProblemKind::Store, error.to_string()).caused_by(error).alone()
    }

    /// Returns each problem, in the order of the text; at least one.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let builder = Limits::builder().memory().key_prefix("{shop}").instances(0);
    /// let error = builder.build().await.unwrap_err();
    /// let settings: Vec<_> = error.problems().iter().map(|problem| problem.setting()).collect();
    /// assert_eq!(settings, [Some("key_prefix"), Some("instances")]);
    /// # }
    /// ```
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problems[..] {
            [problem] => problem.fmt(f),
            problems => {
                write!(f, "rate limits could not be set up, {} problems:", problems.len())?;
                problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl fmt::Debug for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for SetupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.problems.first().and_then(Error::source)
    }
}

/// One problem of a [`SetupError`]. Its text is one line that starts with the place, such as
/// `ratelimit.yaml:12:7: unknown field ..`.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::Limits;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let yaml = "limiters: { search: { rate: 5, per: 1s, brust: 8 } }";
/// let error = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap_err();
/// let problem = &error.problems()[0];
/// assert!(problem.to_string().ends_with("did you mean `burst`?"));
/// # }
/// ```
#[derive(Debug)]
pub struct Problem {
    kind: ProblemKind,
    place: Option<Place>,
    limiter: Option<String>,
    setting: Option<&'static str>,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// The kind of a [`Problem`].
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{ProblemKind, SetupError};
///
/// /// Whether to try again, because the volume with the limits file may not be mounted yet.
/// fn is_temporary(error: &SetupError) -> bool {
///     error.problems().iter().all(|problem| problem.kind() == ProblemKind::File)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A file cannot be read.
    File,
    /// The limits file is not valid YAML of the supported subset.
    Syntax,
    /// A setting is unknown, or its value is invalid.
    Setting,
    /// Two places contradict each other.
    Conflict,
    /// An entry of the limits file matches no limiter of the program.
    Unmatched,
    /// The address of the store is invalid, or the store returns an error that lasts.
    Store,
    /// Limits are already installed, or were used before `install`.
    AlreadyInstalled,
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, place: None, limiter: None, setting: None, message, source: None }
    }

    pub(crate) fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    pub(crate) fn of(mut self, limiter: impl Into<String>) -> Self {
        self.limiter = Some(limiter.into());
        self
    }

    pub(crate) fn about(mut self, setting: &'static str) -> Self {
        self.setting = Some(setting);
        self
    }

    pub(crate) fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Returns the error of a setup that has no other problem.
    pub(crate) fn alone(self) -> SetupError {
        SetupError::new(vec![self])
    }

    pub(crate) fn unreadable(place: Place, error: io::Error) -> Self {
        Self::new(ProblemKind::File, format!("cannot be read: {error}")).at(place).caused_by(error)
    }

    /// Returns the kind of the problem.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, ProblemKind};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let yaml = "limiters: { search: { rate: 5, per: 1s }";
    /// let error = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap_err();
    /// assert_eq!(error.problems()[0].kind(), ProblemKind::Syntax);
    /// # }
    /// ```
    #[must_use]
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// Returns the file, the line and the column, both counted from 1. The column is 1 in Rust source,
    /// and line and column are 1 if the problem concerns a whole file.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let yaml = "limiters:\n  search: { rate: many, per: 1s }";
    /// let error = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap_err();
    /// let (_, line, column) = error.problems()[0].place().expect("it is in the limits file");
    /// assert_eq!((line, column), (2, 19));
    /// # }
    /// ```
    #[must_use]
    pub fn place(&self) -> Option<(&Path, u32, u32)> {
        let Place { path, line, column } = self.place.as_ref()?;
        Some((path, line.unwrap_or(1), column.unwrap_or(1)))
    }

    /// Returns the line and the column, if they are known.
    pub(crate) fn line(&self) -> Option<(u32, Option<u32>)> {
        let place = self.place.as_ref()?;
        Some((place.line?, place.column))
    }

    /// Returns the key of the limiter, as it is written.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let yaml = "limiters: { 'search:{user}': { rate: many, per: 1s } }";
    /// let error = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap_err();
    /// assert_eq!(error.problems()[0].limiter(), Some("search:{user}"));
    /// # }
    /// ```
    #[must_use]
    pub fn limiter(&self) -> Option<&str> {
        self.limiter.as_deref()
    }

    /// Returns the name of the setting in the limits file.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let builder = Limits::builder().memory().revision(u64::MAX);
    /// let error = builder.build().await.unwrap_err();
    /// assert_eq!(error.problems()[0].setting(), Some("revision"));
    /// # }
    /// ```
    #[must_use]
    pub fn setting(&self) -> Option<&'static str> {
        self.setting
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
        // A path, a template and the address of a store can have line breaks.
        write_on_one_line(f, place.chars().chain(self.message.chars()))
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The position of a problem, such as `ratelimit.yaml:12:7`.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: PathBuf,
    line: Option<u32>,
    column: Option<u32>,
}

impl Place {
    pub(crate) fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), line: None, column: None }
    }

    pub(crate) fn line(mut self, line: u32) -> Self {
        self.line = Some(line);
        self
    }

    pub(crate) fn column(mut self, column: u32) -> Self {
        self.column = Some(column);
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        [self.line, self.column].into_iter().flatten().try_for_each(|at| write!(f, ":{at}"))
    }
}
