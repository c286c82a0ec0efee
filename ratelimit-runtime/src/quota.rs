//! How many permits a limiter hands out, and in what time.

mod several;

use std::{fmt, time::Duration};

use ratelimit_spec::{
    Algorithm, Calendar, CalendarUnit, LimitProblem, MAX_LIMITS, MAX_PER, MAX_RATE, MIN_PER,
    TooLarge, WarmUpError, WordError, check_warm_up, format_duration,
};

pub use self::several::Quotas;
use crate::clock::whole_ms;

/// So many permits per window, by a rule: a sliding window unless it is told otherwise.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::Quota;
///
/// let quota = Quota::new(100, Duration::from_secs(1))?;
/// assert_eq!(quota.to_string(), "100 per 1s");
/// assert_eq!(quota.token_bucket(500)?.to_string(), "100 per 1s, token bucket of 500");
/// assert_eq!(
///     quota.warm_up(Duration::from_secs(4))?.to_string(),
///     "100 per 1s, token bucket that warms up in 4s"
/// );
/// assert_eq!(quota.leaky_bucket()?.to_string(), "100 per 1s, leaky bucket");
/// assert_eq!(quota.fixed_window().to_string(), "100 per 1s, fixed window");
///
/// let error = Quota::new(0, Duration::from_secs(1)).unwrap_err();
/// assert_eq!(error.to_string(), "a rate of 0 admits nobody; use 1 to 2147483647 permits");
/// # Ok::<(), ratelimit_runtime::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    rate: u64,
    per: Duration,
    algorithm: Algorithm,
    burst: u32,
    /// In milliseconds; 0 for what does not warm up.
    warm_up_ms: u64,
    calendar: Option<Calendar>,
}

impl Quota {
    /// A quota of `rate` permits in any window of length `per`, which counts in whole
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// When `rate` is not in 1 to 2^31 − 1, or `per` not in 1 ms to 366 days or not a whole
    /// number of milliseconds.
    pub fn new(rate: u64, per: Duration) -> Result<Self, QuotaError> {
        let rate = checked(rate)?;
        if per < MIN_PER || per > MAX_PER || !per.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(QuotaError(Wrong::Window(per)));
        }
        let algorithm = Algorithm::SlidingWindow;
        Ok(Self { rate, per, algorithm, burst: 0, warm_up_ms: 0, calendar: None })
    }

    /// A quota of `rate` permits in each window of a calendar: a day is what the clocks of a time
    /// zone, a name of the IANA database such as `Europe/Vienna`, call one. So it has 23 or 25 hours
    /// when they change, while `Quota::new(rate, 24 h)?.fixed_window()` begins at midnight UTC, always.
    /// [`per`](Self::per) is how long a window usually is, of a month 31 days.
    ///
    /// # Errors
    ///
    /// When `rate` is not in 1 to 2^31 − 1, or there is no such zone.
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
    ///     "unknown time_zone `Europe/Viena`; did you mean `Europe/Vienna`?"
    /// );
    /// # Ok::<(), ratelimit_runtime::QuotaError>(())
    /// ```
    pub fn calendar(rate: u64, unit: CalendarUnit, time_zone: &str) -> Result<Self, QuotaError> {
        let rate = checked(rate)?;
        let zone = time_zone.parse().map_err(|unknown| QuotaError(Wrong::Zone(unknown)))?;
        let (algorithm, calendar) = (Algorithm::FixedWindow, Some(Calendar { unit, zone }));
        Ok(Self { rate, per: unit.nominal(), algorithm, burst: 0, warm_up_ms: 0, calendar })
    }

    /// The same numbers as a token bucket: what is not taken is kept, up to `burst` permits, so that
    /// as many can be taken at once. In the long run it is `rate` in `per`.
    ///
    /// # Errors
    ///
    /// When `burst` is not in 1 to 2^31 − 1, or `burst` times the milliseconds of the window is
    /// beyond 2^52, or the windows are a calendar's.
    pub fn token_bucket(self, burst: u64) -> Result<Self, QuotaError> {
        match u32::try_from(burst) {
            Ok(0) => Err(QuotaError(Wrong::NoBurst)),
            Ok(burst @ 1..=MAX_RATE) => self.counted_as(Algorithm::TokenBucket, burst),
            _ => Err(QuotaError(Wrong::HighBurst(burst))),
        }
    }

    /// The same numbers as a token bucket that warms up: after a pause of as long it hands out a third of
    /// the rate first, and more with each permit. Callers are spaced; one request gets at most `rate`.
    ///
    /// # Errors
    ///
    /// When `warm_up` is not in 1 ms to 366 days or not a whole number of milliseconds, `rate` times
    /// the milliseconds of it is beyond 2^40, or `rate` times those of the window beyond 2^52.
    pub fn warm_up(self, warm_up: Duration) -> Result<Self, QuotaError> {
        let rate = u32::try_from(self.rate).unwrap_or(u32::MAX);
        check_warm_up(rate, warm_up).map_err(|problem| QuotaError(Wrong::WarmUp(problem)))?;
        let quota = self.counted_as(Algorithm::TokenBucket, 0)?;
        Ok(quota.warming_up(whole_ms(warm_up)))
    }

    /// The same numbers as a leaky bucket: one permit every `per / rate`, evenly spaced. What is not
    /// taken is not kept.
    ///
    /// # Errors
    ///
    /// When `rate` times the milliseconds of the window is beyond 2^52, or the windows are a
    /// calendar's.
    pub fn leaky_bucket(self) -> Result<Self, QuotaError> {
        self.counted_as(Algorithm::LeakyBucket, 0)
    }

    /// The same numbers in windows that follow each other since the Unix epoch, or are a calendar's as
    /// they were: at the end of each all permits are free again.
    #[must_use]
    pub fn fixed_window(self) -> Self {
        Self { algorithm: Algorithm::FixedWindow, burst: 0, warm_up_ms: 0, ..self }
    }

    fn counted_as(self, algorithm: Algorithm, burst: u32) -> Result<Self, QuotaError> {
        if let Some(Calendar { unit, .. }) = self.calendar {
            return Err(QuotaError(Wrong::Unit(unit, algorithm)));
        }
        // A rate beyond the range came from a store; it is told of as the greatest.
        let rate = u32::try_from(self.rate).unwrap_or(u32::MAX);
        let checked = algorithm.check(rate, self.per, Some(burst).filter(|burst| *burst > 0));
        checked.map_err(|too_large| QuotaError(Wrong::TooLarge(too_large)))?;
        Ok(Self { algorithm, burst, warm_up_ms: 0, ..self })
    }

    /// What a store holds: a Java peer may have written a rate beyond our own range, or 0.
    pub(crate) fn stored(
        rate: u64,
        per_ms: u64,
        (algorithm, burst): (Algorithm, u32),
        calendar: Option<Calendar>,
    ) -> Self {
        let per = Duration::from_millis(per_ms);
        Self { rate, per, algorithm, burst, warm_up_ms: 0, calendar }
    }

    /// Such a token bucket, if it takes any time to warm up.
    pub(crate) fn warming_up(self, warm_up_ms: u64) -> Self {
        Self { warm_up_ms, ..self }
    }

    /// Permits per window.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Length of the window; of a calendar's, how long one usually is.
    #[must_use]
    pub fn per(&self) -> Duration {
        self.per
    }

    /// The rule by which permits are counted.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// By which clocks the windows begin, when they are a calendar's: `day@Europe/Vienna`.
    #[must_use]
    pub fn by_calendar(&self) -> Option<Calendar> {
        self.calendar
    }

    /// What a token bucket holds; `None` for one that warms up, and for every other algorithm.
    #[must_use]
    pub fn burst(&self) -> Option<u64> {
        self.burst_u32().map(u64::from)
    }

    pub(crate) fn burst_u32(&self) -> Option<u32> {
        let holds = self.algorithm == Algorithm::TokenBucket && self.warm_up_ms == 0;
        holds.then_some(self.burst)
    }

    /// How long a token bucket that warms up takes for that.
    #[must_use]
    pub fn warms_up_in(&self) -> Option<Duration> {
        (self.warm_up_ms > 0).then(|| Duration::from_millis(self.warm_up_ms))
    }
}

fn checked(rate: u64) -> Result<u64, QuotaError> {
    match rate {
        0 => Err(QuotaError(Wrong::NoRate)),
        _ if rate <= MAX_RATE.into() => Ok(rate),
        _ => Err(QuotaError(Wrong::HighRate(rate))),
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Calendar { unit, zone }) = self.calendar {
            return write!(f, "{} per {unit} ({zone})", self.rate);
        }
        write!(f, "{} per {}", self.rate, format_duration(self.per))?;
        match self.algorithm {
            Algorithm::TokenBucket if self.warm_up_ms > 0 => {
                let warm_up = Duration::from_millis(self.warm_up_ms);
                write!(f, ", token bucket that warms up in {}", format_duration(warm_up))
            }
            Algorithm::TokenBucket => write!(f, ", token bucket of {}", self.burst),
            Algorithm::FixedWindow => f.write_str(", fixed window"),
            Algorithm::LeakyBucket => f.write_str(", leaky bucket"),
            _ => Ok(()),
        }
    }
}

/// Why a quota cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaError(Wrong);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    NoRate,
    HighRate(u64),
    Window(Duration),
    NoBurst,
    HighBurst(u64),
    TooLarge(TooLarge),
    WarmUp(WarmUpError),
    Zone(WordError),
    Unit(CalendarUnit, Algorithm),
    TooMany,
    Together(LimitProblem),
    Alone(Quota),
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
            Wrong::NoBurst => {
                write!(f, "a burst of 0 admits nobody; use 1 to {MAX_RATE} permits")
            }
            Wrong::HighBurst(burst) => {
                write!(f, "a burst of {burst} is too high; use 1 to {MAX_RATE} permits")
            }
            Wrong::TooLarge(too_large) => write!(f, "{too_large}"),
            Wrong::WarmUp(problem) => write!(f, "{problem}"),
            Wrong::Zone(unknown) => write!(f, "{unknown}"),
            Wrong::Unit(unit, algorithm) => write!(
                f,
                "a `{unit}` of the calendar is a fixed window, which a `{algorithm}` has not; give it \
                 a length with `Quota::new`"
            ),
            Wrong::TooMany => write!(f, "a limiter has at most {MAX_LIMITS} limits; leave one out"),
            Wrong::Together(problem) => write!(f, "{problem}"),
            Wrong::Alone(quota) => write!(
                f,
                "`{quota}` cannot be one of several limits; use one without a calendar and a warm-up"
            ),
        }
    }
}

impl std::error::Error for QuotaError {}
