//! Quotas: a number of permits per window.

#[cfg(feature = "serde")]
mod entry;
mod several;

use std::{fmt, str::FromStr, time::Duration};

use ratelimit_spec::{self as spec, MAX_RATE, Rule};

pub use self::several::Quotas;
use crate::{Algorithm, CalendarUnit};

/// A number of permits per window, counted by an algorithm: a sliding window by default.
///
/// Its text, such as `100 per 1s, leaky bucket`, can be parsed again. With the feature `serde` it is read and written
/// as in a limits file: `{ rate: 100, per: 1s, algorithm: leaky_bucket }`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Quota, QuotaError};
///
/// const SEARCHES: Quota = Quota::per_second(100);
///
/// # fn main() -> Result<(), QuotaError> {
/// assert_eq!(SEARCHES.to_string(), "100 per 1s");
/// assert_eq!(SEARCHES.token_bucket(500)?.to_string(), "100 per 1s, token bucket of 500");
/// assert_eq!(
///     SEARCHES.warming_bucket(Duration::from_secs(4))?.to_string(),
///     "100 per 1s, token bucket that warms up in 4s"
/// );
/// assert_eq!(SEARCHES.leaky_bucket()?.to_string(), "100 per 1s, leaky bucket");
/// assert_eq!(SEARCHES.fixed_window().to_string(), "100 per 1s, fixed window");
///
/// let quota: Quota = "5 per 1h30m, token bucket of 8".parse()?;
/// assert_eq!(quota, Quota::new(5, Duration::from_secs(90 * 60))?.token_bucket(8)?);
///
/// let error = Quota::new(0, Duration::from_secs(1)).unwrap_err();
/// assert_eq!(error.to_string(), "`rate` is 0, which rejects every call; write a number from 1 to 2147483647");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota(spec::Quota);

impl Quota {
    /// Creates a quota of `rate` permits in any second.
    ///
    /// For a rate that is known at compile time; use [`new`](Self::new) for other numbers.
    ///
    /// # Panics
    ///
    /// Panics if `rate` is not in 1 to 2^31 − 1; in a `const` that is a compile error.
    ///
    /// ```compile_fail
    /// const NOTHING: ratelimit_runtime::Quota = ratelimit_runtime::Quota::per_second(0);
    /// ```
    #[must_use]
    pub const fn per_second(rate: u64) -> Self {
        Self::sliding(rate, 1)
    }

    /// Creates a quota of `rate` permits in any minute; see [`per_second`](Self::per_second).
    ///
    /// # Panics
    ///
    /// Panics if `rate` is not in 1 to 2^31 − 1.
    #[must_use]
    pub const fn per_minute(rate: u64) -> Self {
        Self::sliding(rate, 60)
    }

    /// Creates a quota of `rate` permits in any hour; see [`per_second`](Self::per_second).
    ///
    /// # Panics
    ///
    /// Panics if `rate` is not in 1 to 2^31 − 1.
    #[must_use]
    pub const fn per_hour(rate: u64) -> Self {
        Self::sliding(rate, 3600)
    }

    const fn sliding(rate: u64, seconds: u64) -> Self {
        assert!(rate >= 1 && rate <= MAX_RATE as u64, "the rate of a quota is 1 to 2147483647");
        let per = Duration::from_secs(seconds);
        Self(spec::Quota { rate, per, rule: Rule::SlidingWindow })
    }

    /// Creates a quota of `rate` permits in any window of length `per`, in whole milliseconds.
    ///
    /// # Errors
    ///
    /// Returns an error if `rate` is not in 1 to 2^31 − 1, or `per` is not in 1 ms to 366 days or not a
    /// whole number of milliseconds.
    pub fn new(rate: u64, per: Duration) -> Result<Self, QuotaError> {
        wrap(spec::Quota::new(rate, per))
    }

    /// Creates a quota of `rate` permits per calendar window, such as a day in a time zone of the IANA database. A
    /// day has 23 or 25 hours on daylight saving changes, while `Quota::new(rate, 24 h)?.fixed_window()` always
    /// begins at midnight UTC. [`per`](Self::per) is the usual length of a window; of a month, 31 days.
    ///
    /// # Errors
    ///
    /// Returns an error if `rate` is not in 1 to 2^31 − 1, if there is no such zone, or if the crate feature `calendar`
    /// is not enabled.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{CalendarUnit, Quota};
    ///
    /// let quota = Quota::calendar(1000, CalendarUnit::Day, "Europe/Vienna")?;
    /// assert_eq!(quota.to_string(), "1000 per day (Europe/Vienna)");
    ///
    /// let error = Quota::calendar(1000, CalendarUnit::Day, "Europe/Viena").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "unknown time zone `Europe/Viena`; did you mean `Europe/Vienna`?"
    /// );
    /// # Ok::<(), ratelimit_runtime::QuotaError>(())
    /// ```
    #[cfg(feature = "calendar")]
    pub fn calendar(rate: u64, unit: CalendarUnit, time_zone: &str) -> Result<Self, QuotaError> {
        let zone = spec::time_zone(time_zone).map_err(QuotaError)?;
        wrap(spec::Quota::of_calendar(rate, spec::Calendar { unit: unit.word(), zone }))
    }

    /// Returns a token bucket with this rate: unused permits are stored, up to `burst`, and can be
    /// taken at once.
    ///
    /// # Errors
    ///
    /// Returns an error if `burst` is not in 1 to 2^31 − 1, `burst` times the milliseconds of the window
    /// exceeds 2^52, or this is a calendar window.
    pub fn token_bucket(self, burst: u64) -> Result<Self, QuotaError> {
        wrap(self.0.token_bucket(burst))
    }

    /// Returns a token bucket that warms up: after an idle period of length `warm_up` it grants a third
    /// of the rate, and more with each permit. Permits are spaced; one request gets at most `rate`.
    ///
    /// # Errors
    ///
    /// Returns an error if `warm_up` is not in 1 ms to 366 days or not a whole number of milliseconds,
    /// `rate` times its milliseconds exceeds 2^40, `rate` times those of the window exceeds 2^52, or
    /// this is a calendar window.
    pub fn warming_bucket(self, warm_up: Duration) -> Result<Self, QuotaError> {
        wrap(self.0.counted_by(Rule::WarmingBucket { warm_up }))
    }

    /// Returns a leaky bucket with this rate: one permit every `per / rate`, evenly spaced. Unused
    /// permits are not stored.
    ///
    /// # Errors
    ///
    /// Returns an error if `rate` times the milliseconds of the window exceeds 2^52, or this is a
    /// calendar window.
    pub fn leaky_bucket(self) -> Result<Self, QuotaError> {
        wrap(self.0.counted_by(Rule::LeakyBucket))
    }

    /// Returns fixed windows with this rate: all permits are free again when a window ends. Windows
    /// follow each other since the Unix epoch; calendar windows stay what they are.
    #[must_use]
    pub fn fixed_window(self) -> Self {
        Self(self.0.fixed_window())
    }

    /// Returns the permits per window.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.0.rate
    }

    /// Returns the length of the window; of a calendar window, its usual length.
    #[must_use]
    pub fn per(&self) -> Duration {
        self.0.per
    }

    /// Returns how permits are counted.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        Algorithm::of(self.0.rule.algorithm())
    }

    /// Returns the permits that a token bucket stores, or `None` for one that warms up and for
    /// every other algorithm.
    #[must_use]
    pub fn burst(&self) -> Option<u64> {
        self.0.rule.burst().map(u64::from)
    }

    /// Returns the most permits that are free at once for several requests; 0 if permits are spaced.
    pub(crate) fn saved(&self) -> u64 {
        self.0.rule.saved(self.rate())
    }

    /// Returns how long a token bucket takes to warm up, or `None` if it does not.
    #[must_use]
    pub fn warm_up(&self) -> Option<Duration> {
        self.0.rule.warm_up()
    }

    /// Returns the unit and the time zone of a calendar window, such as `(Day, "Europe/Vienna")`.
    #[must_use]
    pub fn calendar_window(&self) -> Option<(CalendarUnit, &'static str)> {
        let calendar = self.0.rule.calendar()?;
        Some((CalendarUnit::of(calendar.unit), calendar.zone.name()))
    }

    /// Creates the quota of a stored configuration: a Java client may have written a rate beyond our own range, or 0.
    pub(crate) fn stored(rate: u64, per_ms: u64, rule: Rule) -> Self {
        Self(spec::Quota { rate, per: Duration::from_millis(per_ms), rule })
    }

    pub(crate) fn of(numbers: spec::Quota) -> Self {
        Self(numbers)
    }

    pub(crate) fn rule(&self) -> Rule {
        self.0.rule
    }
}

fn wrap(quota: Result<spec::Quota, spec::QuotaError>) -> Result<Quota, QuotaError> {
    quota.map(Quota).map_err(QuotaError)
}

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaError(spec::QuotaError);

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for QuotaError {}
