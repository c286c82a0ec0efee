//! What can go wrong beside a limit that is used up.

use std::fmt;

/// A store that could not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
}

/// Whether time can cure a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store is slow, away or not ready; `on_store_error` decides.
    Unavailable,
    /// The store refuses for a reason that lasts: credentials, permissions, a key of another
    /// type, a certificate. No policy opens these.
    Misconfigured,
}

impl StoreError {
    /// An error that time can cure.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { kind: StoreErrorKind::Unavailable, message: message.into() }
    }

    /// An error that lasts until somebody mends it.
    #[must_use]
    pub fn misconfigured(message: impl Into<String>) -> Self {
        Self { kind: StoreErrorKind::Misconfigured, message: message.into() }
    }

    /// Whether time can cure it.
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

impl std::error::Error for StoreError {}

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

impl std::error::Error for SetupError {}
