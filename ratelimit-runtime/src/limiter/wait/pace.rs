//! How fast a queue can be served by reservations.

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
}
