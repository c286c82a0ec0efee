//! The numbers a limiter is counted by.

use ratelimit_spec::{Algorithm, Mode};

use crate::Quota;

/// The numbers of one limiter, as a store holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Permits per window; 0 admits nobody.
    pub rate: u64,
    /// Length of the window, in milliseconds.
    pub per_ms: u64,
    /// One budget for all, or one per process.
    pub mode: Mode,
    /// The rule by which permits are counted.
    pub algorithm: Algorithm,
    /// What a token bucket holds; 0 for every other algorithm.
    pub burst: u32,
    /// How long a token bucket takes to warm up, in milliseconds; 0 is not at all. One that does has no
    /// burst.
    pub warm_up_ms: u64,
    /// How long an idle limiter is kept, in milliseconds; 0 is for ever.
    pub keep_alive_ms: u64,
}

impl Config {
    /// A sliding window whose idle state is kept for ever.
    #[must_use]
    pub fn new(rate: u64, per_ms: u64, mode: Mode) -> Self {
        let algorithm = Algorithm::SlidingWindow;
        Self { rate, per_ms, mode, algorithm, burst: 0, warm_up_ms: 0, keep_alive_ms: 0 }
    }

    /// Sets the algorithm; `burst` is what a token bucket holds, and 0 for every other one.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm, burst: u32) -> Self {
        (self.algorithm, self.burst, self.warm_up_ms) = (algorithm, burst, 0);
        self
    }

    /// Sets how long a token bucket takes to warm up, in milliseconds.
    #[must_use]
    pub fn warm_up_ms(mut self, warm_up_ms: u64) -> Self {
        self.warm_up_ms = warm_up_ms;
        self
    }

    /// Sets how long an idle limiter is kept, in milliseconds.
    #[must_use]
    pub fn keep_alive_ms(mut self, keep_alive_ms: u64) -> Self {
        self.keep_alive_ms = keep_alive_ms;
        self
    }

    /// Whether both limit alike; how long they are kept does not matter.
    #[must_use]
    pub fn same_limit(&self, other: &Self) -> bool {
        let kept_alike = Self { keep_alive_ms: other.keep_alive_ms, ..*self };
        kept_alike == *other
    }

    /// The most permits one request can get.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket if self.rate > 0 && self.warm_up_ms == 0 => self.burst.into(),
            _ => self.rate,
        }
    }

    /// The longest a permit can count, in milliseconds: state that is idle for as long means nothing.
    pub(crate) fn counts_for_ms(&self) -> u64 {
        let longest = match self.algorithm {
            // The log is a fiftieth of the window coarse.
            Algorithm::SlidingWindow => self.per_ms.saturating_add(self.per_ms / 50),
            // A clock that steps back leaves a window in force until it is over again.
            Algorithm::FixedWindow => self.per_ms.saturating_mul(2),
            // As long again, half of it, until a warm one is cold.
            _ => self.span_ms(self.capacity()).saturating_add(self.warm_up_ms * 2),
        };
        longest.saturating_add(1)
    }

    /// The milliseconds in which so many permits come back, at the steady rate; rounded down.
    pub(crate) fn span_ms(&self, permits: u64) -> u64 {
        let ms = u128::from(permits) * u128::from(self.per_ms);
        u64::try_from(ms / u128::from(self.rate.max(1))).unwrap_or(u64::MAX)
    }

    /// The fewest milliseconds in which a caller gets its permits after so many others got theirs, from
    /// the first one's turn on. Whoever `waits` for a fixed window has its turn when one begins.
    pub(crate) fn least_ms(&self, ahead: u64, permits: u64, waits: bool) -> u64 {
        let windows = (ahead + permits - 1).checked_div(self.rate).unwrap_or(0);
        match self.algorithm {
            Algorithm::TokenBucket if self.warm_up_ms > 0 => self.span_ms(ahead),
            Algorithm::TokenBucket => {
                self.span_ms((ahead + permits).saturating_sub(self.capacity()))
            }
            Algorithm::LeakyBucket => self.span_ms(ahead),
            Algorithm::FixedWindow if !waits => windows.saturating_sub(1) * self.per_ms,
            _ => windows * self.per_ms,
        }
    }

    pub(crate) fn quota(&self) -> Quota {
        let Self { rate, per_ms, algorithm, burst, warm_up_ms, .. } = *self;
        Quota::stored(rate, per_ms, algorithm, burst, warm_up_ms)
    }
}
