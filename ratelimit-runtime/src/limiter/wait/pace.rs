//! How fast a queue can be served by reservations.

use std::sync::atomic::Ordering;

use crate::limiter::{Core, services::Services};

/// The maximum number of reservations of one queue.
const MOST_SLOTS: u64 = 64;

/// How fast a limiter with reservations hands out permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) rate: u64,
    pub(super) per_ms: u64,
    /// Whether permits are spaced, one request after the other.
    pub(super) spaced: bool,
    /// The capacity of the bucket, in permits.
    pub(super) capacity: u64,
    /// The measured round trip to the store, in milliseconds, rounded up.
    pub(super) round_trip_ms: u64,
}

impl Pace {
    /// Returns whether the limiter can ever grant a request of this cost. The store rejects any other.
    pub(super) fn grants(&self, permits: u32) -> bool {
        self.rate > 0 && u64::from(permits) <= self.capacity
    }

    /// The number of reservations of this cost that fit in twice the round trip plus 5 ms.
    pub(super) fn depth(&self, cost: u32) -> usize {
        let ahead_ms = self.round_trip_ms.saturating_mul(2).saturating_add(5);
        let slot = u128::from(self.per_ms) * u128::from(cost.max(1));
        let fit = (u128::from(ahead_ms) * u128::from(self.rate)).checked_div(slot);
        usize::try_from(fit.unwrap_or(0).clamp(1, MOST_SLOTS.into())).unwrap_or(1)
    }

    /// The milliseconds for which an unused reservation stays valid: until the next one of a bucket
    /// that spaces its callers, or until a bucket that was empty then is full.
    pub(super) fn keeps_ms(&self, permits: u32) -> u64 {
        self.span_ms(if self.spaced { permits.into() } else { self.capacity })
    }

    /// The milliseconds that a request of this cost takes up, rounded up.
    pub(super) fn span_ms(&self, permits: u64) -> u64 {
        let ms = u128::from(self.per_ms) * u128::from(permits);
        u64::try_from(ms.div_ceil(self.rate.max(1).into())).unwrap_or(u64::MAX)
    }

    /// The same, rounded down.
    pub(super) fn least_ms(&self, permits: u64) -> u64 {
        let ms = u128::from(self.per_ms) * u128::from(permits);
        u64::try_from(ms / u128::from(self.rate.max(1))).unwrap_or(u64::MAX)
    }
}

impl Core {
    /// Returns how fast reservations are handed out; `None` if the active limiter takes none.
    pub(super) fn pace(&self, limits: &Services) -> Option<Pace> {
        let rule = self.rule(limits);
        let numbers = rule.numbers.as_ref().ok()?;
        let config = self.in_force().unwrap_or(numbers.config);
        let whole = !rule.is_joint() && rule.shards().is_none();
        let waiting = self.queue.waiting();
        let polls = waiting.polling.load(Ordering::Acquire) || rule.is_shadowed();
        let polls = polls || limits.is_shut_down() || !numbers.effective.set.enabled();
        let round_trip_ms = waiting.round_trip_us.load(Ordering::Relaxed).div_ceil(1000);
        (whole && config.reserves() && !polls).then(|| Pace {
            rate: config.rate,
            per_ms: config.per_ms,
            spaced: config.is_spaced(),
            capacity: config.capacity(),
            round_trip_ms,
        })
    }
}
