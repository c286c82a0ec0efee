//! The configuration that a limiter is counted with.

use ratelimit_spec::{Calendar, Mode, Rule};

use crate::{Quota, calendar::bounds, clock::whole_ms};

/// The most that the clocks of a zone can be set back within two windows, plus an hour of margin.
const CHANGE_MS: u64 = 3 * 3_600_000;

/// The numbers of one limiter, as a store holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Permits per window; 0 rejects every call.
    pub rate: u64,
    /// Length of the window, in milliseconds.
    pub per_ms: u64,
    /// One budget for all, or one per process.
    pub mode: Mode,
    /// How permits are counted.
    pub rule: Rule,
    /// How long an idle limiter is kept, in milliseconds; 0 is forever.
    pub keep_alive_ms: u64,
}

/// Returns the number of permits left below which a call is near the limit: it leaves at most a fifth of those that can
/// be saved. 0 if at most one can be saved, because every call leaves none then.
pub(super) fn near_below(saved: u64) -> u64 {
    if saved > 1 { saved / 5 + 1 } else { 0 }
}

impl Config {
    /// Creates a sliding window whose idle state is kept forever.
    #[must_use]
    pub fn new(rate: u64, per_ms: u64, mode: Mode) -> Self {
        Self { rate, per_ms, mode, rule: Rule::SlidingWindow, keep_alive_ms: 0 }
    }

    /// Sets how permits are counted.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// Counts by windows of a calendar, and sets the usual length of one.
    #[cfg(any(test, feature = "test-util"))]
    #[must_use]
    pub fn by_calendar(mut self, calendar: Calendar) -> Self {
        self.per_ms = whole_ms(calendar.unit.nominal());
        self.rule(Rule::FixedWindow { calendar: Some(calendar) })
    }

    /// Sets how long an idle limiter is kept, in milliseconds.
    #[must_use]
    pub fn keep_alive_ms(mut self, keep_alive_ms: u64) -> Self {
        self.keep_alive_ms = keep_alive_ms;
        self
    }

    /// Returns the configuration with the values of a quota; values that the quota does not set stay unchanged.
    pub(crate) fn with_quota(self, quota: &Quota) -> Self {
        let (rate, per_ms) = (quota.rate(), whole_ms(quota.per()));
        Self { rate, per_ms, rule: quota.rule(), ..self }
    }

    /// Returns the share of one of `processes`, rounded down. A share of less than one permit per
    /// window becomes one permit in a longer window.
    pub(crate) fn shared_by(self, processes: u32) -> Self {
        let n = u64::from(processes.max(1));
        let rule = self.rule.map_burst(|burst| (burst / processes.max(1)).max(1));
        if self.rate == 0 || self.rate >= n {
            return Self { rate: self.rate / n, rule, ..self };
        }
        // No calendar has windows of another length.
        let rule = if rule.calendar().is_some() { Rule::SlidingWindow } else { rule };
        let per_ms = self.per_ms.saturating_mul(n).div_ceil(self.rate);
        Self { rate: 1, per_ms, rule, ..self }
    }

    /// Returns whether both limit alike; how long they are kept does not matter.
    #[must_use]
    pub fn same_limit(&self, other: &Self) -> bool {
        let kept_alike = Self { keep_alive_ms: other.keep_alive_ms, ..*self };
        kept_alike == *other
    }

    /// The most permits one request can get.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.rule.capacity(self.rate)
    }

    /// The most permits that are free at once for several requests; 0 if permits are spaced.
    pub(crate) fn saved(&self) -> u64 {
        self.rule.saved(self.rate)
    }

    /// Returns whether a call that left this many permits is near the limit.
    pub(crate) fn is_near_limit(&self, remaining: u64) -> bool {
        remaining < near_below(self.saved())
    }

    /// How long the bucket takes to warm up, in milliseconds; 0 where it does not.
    #[must_use]
    pub fn warm_up_ms(&self) -> u64 {
        self.rule.warm_up().map_or(0, whole_ms)
    }

    /// The calendar whose windows these are.
    #[must_use]
    pub fn calendar(&self) -> Option<Calendar> {
        self.rule.calendar()
    }

    /// Returns whether permits are spaced, one request after the other.
    pub(crate) fn is_spaced(&self) -> bool {
        match self.rule {
            Rule::LeakyBucket | Rule::WarmingBucket { .. } => true,
            Rule::SlidingWindow | Rule::TokenBucket { .. } | Rule::FixedWindow { .. } => false,
        }
    }

    /// Returns whether the algorithm is a bucket, which drains gradually.
    pub(crate) fn drains(&self) -> bool {
        match self.rule {
            Rule::TokenBucket { .. } | Rule::WarmingBucket { .. } | Rule::LeakyBucket => true,
            Rule::SlidingWindow | Rule::FixedWindow { .. } => false,
        }
    }

    /// The longest time for which a permit can count, in milliseconds. State that is idle for that long can be dropped.
    pub(crate) fn counts_for_ms(&self) -> u64 {
        let longest = match self.rule {
            // The log has a resolution of a fiftieth of the window.
            Rule::SlidingWindow => self.per_ms.saturating_add(self.per_ms / 50),
            // If the clock steps back, the active window lasts until its end is reached again.
            Rule::FixedWindow { calendar } => {
                let slack = calendar.map_or(0, |_| self.per_ms.min(CHANGE_MS));
                self.per_ms.saturating_mul(2).saturating_add(slack)
            }
            Rule::TokenBucket { .. } | Rule::LeakyBucket => self.span_ms(self.capacity()),
            // Half as long again as the warm-up, until a warm bucket is cold.
            Rule::WarmingBucket { warm_up } => {
                self.span_ms(self.capacity()).saturating_add(whole_ms(warm_up).saturating_mul(2))
            }
        };
        longest.saturating_add(1)
    }

    /// Returns the start and the length of the window that contains a time, in milliseconds.
    pub(super) fn window_at(&self, now: u64) -> (u64, u64) {
        match self.calendar() {
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

    /// Returns the milliseconds in which this many permits become free at the steady rate, rounded down.
    pub(crate) fn span_ms(&self, permits: u64) -> u64 {
        let ms = u128::from(permits) * u128::from(self.per_ms);
        u64::try_from(ms / u128::from(self.rate.max(1))).unwrap_or(u64::MAX)
    }

    /// The minimum time from the first caller's turn until a caller behind `ahead` permits gets its
    /// own, in milliseconds. The first caller's turn may be when a fixed window `begins`.
    pub(crate) fn least_ms(&self, ahead: u64, permits: u64, begins: bool) -> u64 {
        let all = ahead.saturating_add(permits);
        let windows = all.saturating_sub(1).checked_div(self.rate).unwrap_or(0);
        match self.rule {
            Rule::SlidingWindow => windows.saturating_mul(self.per_ms),
            Rule::FixedWindow { calendar } => {
                let shortest = |calendar: Calendar| whole_ms(calendar.unit.shortest());
                let window_ms = calendar.map_or(self.per_ms, shortest);
                let windows = if begins { windows } else { windows.saturating_sub(1) };
                windows.saturating_mul(window_ms)
            }
            Rule::TokenBucket { .. } => self.span_ms(all.saturating_sub(self.capacity())),
            Rule::WarmingBucket { .. } | Rule::LeakyBucket => self.span_ms(ahead),
        }
    }

    pub(crate) fn quota(&self) -> Quota {
        Quota::stored(self.rate, self.per_ms, self.rule)
    }
}
