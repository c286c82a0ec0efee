//! How many permits a limiter hands out, and in what time.

use std::{fmt, time::Duration};

use ratelimit_spec::{MAX_PER, MAX_RATE, MIN_PER, format_duration};

/// So many permits per window.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::Quota;
///
/// let quota = Quota::new(100, Duration::from_secs(1))?;
/// assert_eq!(quota.to_string(), "100 per 1s");
///
/// let error = Quota::new(0, Duration::from_secs(1)).unwrap_err();
/// assert_eq!(error.to_string(), "a rate of 0 admits nobody; use 1 to 2147483647 permits");
/// # Ok::<(), ratelimit_runtime::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    rate: u64,
    per: Duration,
}

impl Quota {
    /// A quota of `rate` permits in any window of length `per`, which counts in whole
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// When `rate` is not in 1 to 2^31 − 1, or `per` not in 1 ms to 366 days or not a whole
    /// number of milliseconds.
    pub fn new(rate: u32, per: Duration) -> Result<Self, QuotaError> {
        if rate == 0 {
            return Err(QuotaError(Wrong::NoRate));
        }
        if rate > MAX_RATE {
            return Err(QuotaError(Wrong::HighRate(rate)));
        }
        if per < MIN_PER || per > MAX_PER || !per.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(QuotaError(Wrong::Window(per)));
        }
        Ok(Self { rate: rate.into(), per })
    }

    /// What a store holds: a Java peer may have written a rate beyond our own range, or 0.
    pub(crate) fn stored(rate: u64, per_ms: u64) -> Self {
        Self { rate, per: Duration::from_millis(per_ms) }
    }

    /// Permits per window.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Length of the window.
    #[must_use]
    pub fn per(&self) -> Duration {
        self.per
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.rate, format_duration(self.per))
    }
}

/// Why a quota cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaError(Wrong);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    NoRate,
    HighRate(u32),
    Window(Duration),
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Wrong::NoRate => {
                write!(f, "a rate of 0 admits nobody; use 1 to {MAX_RATE} permits")
            }
            Wrong::HighRate(rate) => {
                write!(f, "a rate of {rate} is too high; use 1 to {MAX_RATE} permits")
            }
            Wrong::Window(per) => write!(
                f,
                "a window of {per:?} cannot be counted; use whole milliseconds from {} to {}",
                format_duration(MIN_PER),
                format_duration(MAX_PER)
            ),
        }
    }
}

impl std::error::Error for QuotaError {}
