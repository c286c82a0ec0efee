//! The numbers a limiter is counted by.

use ratelimit_spec::{Algorithm, Calendar, Mode};

use crate::{Quota, calendar::bounds, clock::whole_ms};

/// By how much the clocks of a zone can be put back in two windows, and an hour to spare.
const CHANGE_MS: u64 = 3 * 3_600_000;

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
    /// By which clocks fixed windows begin; without it they follow each other since the Unix epoch.
    pub calendar: Option<Calendar>,
    /// How long an idle limiter is kept, in milliseconds; 0 is for ever.
    pub keep_alive_ms: u64,
}

impl Config {
    /// A sliding window whose idle state is kept for ever.
    #[must_use]
    pub fn new(rate: u64, per_ms: u64, mode: Mode) -> Self {
        let algorithm = Algorithm::SlidingWindow;
        Self {
            rate,
            per_ms,
            mode,
            algorithm,
            burst: 0,
            warm_up_ms: 0,
            calendar: None,
            keep_alive_ms: 0,
        }
    }

    /// Sets the algorithm; `burst` is what a token bucket holds, and 0 for every other one.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm, burst: u32) -> Self {
        (self.algorithm, self.burst) = (algorithm, burst);
        (self.warm_up_ms, self.calendar) = (0, None);
        self
    }

    /// Sets how long a token bucket takes to warm up, in milliseconds.
    #[must_use]
    pub fn warm_up_ms(mut self, warm_up_ms: u64) -> Self {
        self.warm_up_ms = warm_up_ms;
        self
    }

    /// Fixed windows of a calendar; the length is the usual one then.
    #[must_use]
    pub fn calendar(mut self, calendar: Calendar) -> Self {
        self.per_ms = whole_ms(calendar.unit.nominal());
        self = self.algorithm(Algorithm::FixedWindow, 0);
        self.calendar = Some(calendar);
        self
    }

    /// Sets how long an idle limiter is kept, in milliseconds.
    #[must_use]
    pub fn keep_alive_ms(mut self, keep_alive_ms: u64) -> Self {
        self.keep_alive_ms = keep_alive_ms;
        self
    }

    /// The numbers of a quota, and what it does not say as it is here.
    pub(crate) fn with_quota(mut self, quota: &Quota) -> Self {
        (self.rate, self.per_ms) = (quota.rate(), whole_ms(quota.per()));
        match quota.by_calendar() {
            Some(calendar) => self.calendar(calendar),
            None => self
                .algorithm(quota.algorithm(), quota.burst_u32().unwrap_or(0))
                .warm_up_ms(quota.warms_up_in().map_or(0, whole_ms)),
        }
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

    /// Whether permits are handed out one request after the other.
    pub(crate) fn is_spaced(&self) -> bool {
        self.algorithm == Algorithm::LeakyBucket || self.warm_up_ms > 0
    }

    /// The longest a permit can count, in milliseconds: state that is idle for as long means nothing.
    pub(crate) fn counts_for_ms(&self) -> u64 {
        let longest = match self.algorithm {
            // The log is a fiftieth of the window coarse.
            Algorithm::SlidingWindow => self.per_ms.saturating_add(self.per_ms / 50),
            // A clock that steps back leaves a window in force until it is over again.
            Algorithm::FixedWindow => {
                let slack = self.calendar.map_or(0, |_| self.per_ms.min(CHANGE_MS));
                self.per_ms.saturating_mul(2).saturating_add(slack)
            }
            // As long again, half of it, until a warm one is cold.
            _ => self.span_ms(self.capacity()).saturating_add(self.warm_up_ms * 2),
        };
        longest.saturating_add(1)
    }

    /// When the window of a time begins and how long it is, in milliseconds.
    pub(super) fn window_at(&self, now: u64) -> (u64, u64) {
        match self.calendar {
            Some(calendar) => {
                let [_, start, end, _] = bounds(calendar, now);
                (start, end - start)
            }
            None => {
                let per = self.per_ms.max(1);
                (now - now % per, per)
            }
        }
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
        let window_ms =
            self.calendar.map_or(self.per_ms, |calendar| whole_ms(calendar.unit.shortest()));
        match self.algorithm {
            Algorithm::TokenBucket if self.warm_up_ms > 0 => self.span_ms(ahead),
            Algorithm::TokenBucket => {
                self.span_ms((ahead + permits).saturating_sub(self.capacity()))
            }
            Algorithm::LeakyBucket => self.span_ms(ahead),
            Algorithm::FixedWindow if !waits => windows.saturating_sub(1) * window_ms,
            _ => windows * window_ms,
        }
    }

    pub(crate) fn quota(&self) -> Quota {
        let Self { rate, per_ms, algorithm, burst, warm_up_ms, calendar, .. } = *self;
        Quota::stored(rate, per_ms, (algorithm, burst), calendar).warming_up(warm_up_ms)
    }
}
