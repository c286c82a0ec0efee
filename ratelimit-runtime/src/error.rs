//! What can go wrong beside a limit that is used up.

use std::{error::Error, fmt, sync::Arc};

/// An error of the store: what it could not do, and why.
///
/// [`source`](Error::source) leads to the driver's error if there is one.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kind of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store did not reply within the deadline; `on_store_error` decides.
    Timeout,
    /// The store is unavailable or not ready; `on_store_error` decides.
    Unavailable,
    /// The store refuses for a reason that lasts: credentials, permissions, a key of another
    /// type, a certificate. No policy covers these.
    Misconfigured,
}

impl StoreError {
    pub(crate) fn timeout(message: impl Into<Arc<str>>) -> Self {
        Self { kind: StoreErrorKind::Timeout, message: message.into(), source: None }
    }

    /// An error that time can cure.
    pub(crate) fn unavailable(message: impl Into<Arc<str>>) -> Self {
        Self { kind: StoreErrorKind::Unavailable, message: message.into(), source: None }
    }

    /// An error that lasts until the configuration is changed.
    pub(crate) fn misconfigured(message: impl Into<Arc<str>>) -> Self {
        Self { kind: StoreErrorKind::Misconfigured, message: message.into(), source: None }
    }

    /// The same with the error that led to it.
    pub(crate) fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What kind of error it is: one that time can cure, or one that lasts.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Why the limits could not be set up: every problem that was found, in one report.
///
/// ```text
/// 2 problems keep the rate limits from starting:
///   ratelimit.yaml:12:7: unknown field `brust` in limiter `checkout`; did you mean `burst`?
///   src/orders.rs:40: `orders:{user_id}` takes 5 permits a call, but ratelimit.yaml:4:11 sets a rate of 2
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupError {
    problems: Vec<String>,
}

impl SetupError {
    pub(crate) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }

    pub(crate) fn one(problem: impl Into<String>) -> Self {
        Self { problems: vec![problem.into()] }
    }

    /// Each problem, with the place it is in where it has one.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl From<StoreError> for SetupError {
    fn from(error: StoreError) -> Self {
        Self::one(error.to_string())
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problems[..] {
            [problem] => f.write_str(problem),
            problems => {
                write!(f, "{} problems keep the rate limits from starting:", problems.len())?;
                problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl Error for SetupError {}
