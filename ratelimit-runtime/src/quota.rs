//! Quotas: a number of permits per window.

#[cfg(feature = "serde")]
mod entry;
mod several;
mod text;

use std::time::Duration;

use ratelimit_spec::{self as spec, MAX_RATE, Rule};

pub use self::{several::Quotas, text::QuotaError};
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::Quota;
    ///
    /// const LOGINS: Quota = Quota::per_minute(5);
    /// assert_eq!((LOGINS.rate(), LOGINS.per()), (5, Duration::from_secs(60)));
    /// ```
    #[must_use]
    pub const fn per_minute(rate: u64) -> Self {
        Self::sliding(rate, 60)
    }

    /// Creates a quota of `rate` permits in any hour; see [`per_second`](Self::per_second).
    ///
    /// # Panics
    ///
    /// Panics if `rate` is not in 1 to 2^31 − 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Quota, QuotaError};
    ///
    /// const MESSAGES: Quota = Quota::per_hour(100);
    ///
    /// # fn main() -> Result<(), QuotaError> {
    /// assert_eq!(MESSAGES.token_bucket(10)?.to_string(), "100 per 1h, token bucket of 10");
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Quota, QuotaError};
    ///
    /// /// The searches that a customer has paid for.
    /// fn searches(paid: u64) -> Result<Quota, QuotaError> {
    ///     Quota::new(paid, Duration::from_millis(1500))
    /// }
    ///
    /// assert_eq!(searches(30)?.to_string(), "30 per 1s500ms");
    /// assert!(searches(0).is_err());
    /// # Ok::<(), ratelimit_runtime::QuotaError>(())
    /// ```
    pub fn new(rate: u64, per: Duration) -> Result<Self, QuotaError> {
        wrap(spec::Quota::new(rate, per))
    }

    /// Creates a quota of `rate` permits per calendar window, such as a day in a time zone of the IANA database. A
    /// day has 23 or 25 hours when daylight saving time begins or ends, while `Quota::new(rate, 24 h)?.fixed_window()`
    /// always begins at midnight UTC. [`per`](Self::per) is the usual length of a window; of a month, 31 days.
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(60).token_bucket(300)?);
    ///
    /// assert_eq!(search.try_acquire(300).await?.remaining(), 0);
    /// let rejection = search.try_acquire(1).await.unwrap_err();
    /// assert!(rejection.retry_after() <= Some(Duration::from_secs(1)), "one permit a second");
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let quota = Quota::per_minute(6).warming_bucket(Duration::from_secs(300))?;
    /// let import = limits.limiter("import", quota);
    ///
    /// import.try_acquire(1).await?;
    /// let rejection = import.try_acquire(1).await.unwrap_err();
    /// assert!(rejection.retry_after() > Some(Duration::from_secs(25)), "30 s at first, later 10 s");
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let partner = limits.limiter("partner", Quota::per_minute(6).leaky_bucket()?);
    ///
    /// partner.try_acquire(1).await?;
    /// let rejection = partner.try_acquire(1).await.unwrap_err();
    /// assert!(rejection.retry_after() > Some(Duration::from_secs(5)), "one every 10 s");
    /// # Ok(())
    /// # }
    /// ```
    pub fn leaky_bucket(self) -> Result<Self, QuotaError> {
        wrap(self.0.counted_by(Rule::LeakyBucket))
    }

    /// Returns fixed windows with this rate: all permits are free again when a window ends. Windows
    /// follow each other since the Unix epoch; calendar windows stay what they are.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let daily = Quota::new(1000, Duration::from_secs(86_400))?.fixed_window();
    /// let permit = limits.limiter("export", daily).try_acquire(1).await?;
    ///
    /// let end = permit.at() + permit.reset_after();
    /// assert_eq!(end.duration_since(UNIX_EPOCH)?.as_secs() % 86_400, 0, "midnight UTC");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fixed_window(self) -> Self {
        Self(self.0.fixed_window())
    }

    /// Returns the permits per window.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let permit = limits.limiter("search", Quota::per_minute(40)).try_acquire(10).await?;
    /// let percent_left = permit.quota().map(|quota| 100 * permit.remaining() / quota.rate());
    /// assert_eq!(percent_left, Some(75));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.0.rate
    }

    /// Returns the length of the window; of a calendar window, its usual length.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::Quota;
    ///
    /// let quota: Quota = "5 per 1h30m".parse()?;
    /// assert_eq!(quota.per(), Duration::from_secs(90 * 60));
    /// # Ok::<(), ratelimit_runtime::QuotaError>(())
    /// ```
    #[must_use]
    pub fn per(&self) -> Duration {
        self.0.per
    }

    /// Returns how permits are counted.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Algorithm, Quota};
    ///
    /// let quota = Quota::per_second(10);
    /// assert_eq!(quota.algorithm(), Algorithm::SlidingWindow);
    /// assert_eq!(quota.leaky_bucket()?.algorithm(), Algorithm::LeakyBucket);
    /// # Ok::<(), ratelimit_runtime::QuotaError>(())
    /// ```
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        Algorithm::of(self.0.rule.algorithm())
    }

    /// Returns the permits that a token bucket stores, or `None` for one that warms up and for
    /// every other algorithm.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Quota;
    ///
    /// let quota = Quota::per_second(10);
    /// assert_eq!(quota.token_bucket(50)?.burst(), Some(50));
    /// assert_eq!(quota.burst(), None);
    /// # Ok::<(), ratelimit_runtime::QuotaError>(())
    /// ```
    #[must_use]
    pub fn burst(&self) -> Option<u64> {
        self.0.rule.burst().map(u64::from)
    }

    /// Returns the most permits that are free at once for several requests; 0 if permits are spaced.
    pub(crate) fn saved(&self) -> u64 {
        self.0.rule.saved(self.rate())
    }

    /// Returns how long a token bucket takes to warm up, or `None` if it does not.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::Quota;
    ///
    /// let quota: Quota = "100 per 1s, token bucket that warms up in 4s".parse()?;
    /// assert_eq!(quota.warm_up(), Some(Duration::from_secs(4)));
    /// # Ok::<(), ratelimit_runtime::QuotaError>(())
    /// ```
    #[must_use]
    pub fn warm_up(&self) -> Option<Duration> {
        self.0.rule.warm_up()
    }

    /// Returns the unit and the time zone of a calendar window, such as `(Day, "Europe/Vienna")`.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{CalendarUnit, Quota};
    ///
    /// let quota: Quota = "1000 per day (Europe/Vienna)".parse()?;
    /// assert_eq!(quota.calendar_window(), Some((CalendarUnit::Day, "Europe/Vienna")));
    /// # Ok::<(), ratelimit_runtime::QuotaError>(())
    /// ```
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
