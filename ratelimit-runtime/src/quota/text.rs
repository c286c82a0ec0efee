//! The text of a quota, and the error of an invalid one.

use std::{fmt, str::FromStr};

use ratelimit_spec as spec;

use super::{Quota, wrap};

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quota({self})")
    }
}

impl FromStr for Quota {
    type Err = QuotaError;

    /// Parses the output of [`Display`](fmt::Display).
    fn from_str(text: &str) -> Result<Self, QuotaError> {
        wrap(text.parse())
    }
}

/// The error of an invalid quota. Its text says what to write.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Quota, QuotaError};
///
/// let error: QuotaError = "100 per second".parse::<Quota>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "unexpected `s` in `second`; write a duration such as `500ms`, `1s` or `1h30m`"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaError(pub(super) spec::QuotaError);

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for QuotaError {}
