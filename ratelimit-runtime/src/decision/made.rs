//! How decisions are made: on calls that are not counted, and from other decisions.

use std::{
    cmp::Reverse,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{Decision, Reason};
use crate::Quota;

impl Decision {
    /// Creates the decision on a call that is not counted.
    pub(crate) fn uncounted(limiter: Arc<str>, at: SystemTime) -> Self {
        Self {
            limiter,
            quota: None,
            remaining: 0,
            reset_after: Duration::ZERO,
            more_after: Duration::ZERO,
            retry_after: None,
            counted: false,
            degraded: false,
            shadow: false,
            shadowed: None,
            blocked: false,
            at,
            violated: None,
            parts: None,
        }
    }

    /// Converts a decision to one that was made because the store was unavailable.
    pub(crate) fn without_store(self) -> Self {
        let parts = self.map_parts(|part| Self { degraded: true, ..part.clone() });
        Self { degraded: true, parts, ..self }
    }

    /// Converts a rejection to a shadowed decision.
    pub(crate) fn in_shadow(self) -> Self {
        let reason = if self.blocked { Reason::Blocked } else { Reason::Limited };
        let parts = self.map_parts(|part| Self {
            shadow: true,
            shadowed: part.retry_after.and(Some(reason)),
            ..part.clone()
        });
        Self { shadow: true, shadowed: Some(reason), parts, ..self }
    }

    /// Returns the decision of a key that is blocked for this long: nothing remains of any limit until then, nor until
    /// the permits of the request are free.
    pub(crate) fn blocked_for(self, block: Duration) -> Self {
        let wait = self.retry_after.map_or(block, |wait| wait.max(block));
        let parts = self.map_parts(|part| part.clone().blocked_for(wait));
        let (reset_after, retry_after) = (self.reset_after.max(wait), Some(wait));
        Self { remaining: 0, reset_after, more_after: wait, retry_after, parts, ..self }
    }

    /// Returns the decisions of several limits, each of them changed.
    fn map_parts(&self, change: impl Fn(&Self) -> Self) -> Option<Arc<[Self]>> {
        Some(self.parts.as_deref()?.iter().map(change).collect())
    }

    /// Returns the decision of a call that took these permits and is settled at what it `used`, so that the others are
    /// free again. A bucket that spaces its permits may not free them: its decision does not change. The times of a window
    /// are those of its oldest and of its newest permit, which may be those of other calls.
    pub(crate) fn settled(&self, taken: u64, used: u64) -> Self {
        if taken == 0 {
            return self.clone();
        }
        if let Some(parts) = &self.parts {
            let parts = parts.iter().map(|part| part.settled(taken, used));
            return parts.reduce(Self::and).unwrap_or_else(|| self.clone());
        }
        let all = self.quota.map_or(0, |quota| quota.saved());
        let mut settled = self.clone();
        if all == 0 {
            return settled;
        }
        let free = self.remaining.saturating_add(taken);
        settled.remaining = free.saturating_sub(used).min(all);
        if settled.remaining == all {
            (settled.reset_after, settled.more_after) = (Duration::ZERO, Duration::ZERO);
        } else if let Some(bucket) = self.quota.filter(|quota| quota.burst().is_some()) {
            // What is not free becomes debt, or excess: a decision does not know which.
            let used = used.min(free);
            let more = time_of(bucket, used.saturating_sub(taken), u128::div_ceil);
            let less = time_of(bucket, taken.saturating_sub(used), |ms, rate| ms / rate);
            settled.reset_after = self.reset_after.saturating_add(more).saturating_sub(less);
        }
        settled
    }

    /// Combines the decisions of two limiters: the stricter one, with the parts of both.
    pub(crate) fn and(self, other: Self) -> Self {
        let mut parts: Vec<Self> = self.parts().iter().chain(other.parts()).cloned().collect();
        parts.sort_by_key(Self::slack);
        let remaining = self.remaining.min(other.remaining);
        let reset_after = self.reset_after.max(other.reset_after);
        let (degraded, at) = (self.degraded || other.degraded, self.at.max(other.at));
        let shadowed = self.shadowed.or(other.shadowed);
        let retry_after = self.retry_after.max(other.retry_after);
        let strictest = if other.slack() < self.slack() { other } else { self };
        let parts = Some(parts.into());
        Self { remaining, reset_after, degraded, at, shadowed, retry_after, parts, ..strictest }
    }

    #[cfg(feature = "tower")]
    pub(crate) fn is_stricter_than(&self, other: &Self) -> bool {
        self.slack() < other.slack()
    }

    /// Returns how little a decision restricts the caller: one that rejects, the longer the wait, comes before those of
    /// which a fraction of the quota is left, in units of 2^-32.
    fn slack(&self) -> (Reverse<Option<Duration>>, u128) {
        let rejects = self.retry_after.filter(|_| self.shadowed.is_none());
        let of = self.quota.map_or(1, |quota| quota.rate().max(1));
        (Reverse(rejects), (u128::from(self.remaining) << 32) / u128::from(of))
    }
}

/// Returns how long a bucket takes to refill by this many permits, in whole milliseconds.
fn time_of(bucket: Quota, permits: u64, divided_by: impl Fn(u128, u128) -> u128) -> Duration {
    let ms = bucket.per().as_millis() * u128::from(permits);
    let ms = divided_by(ms, bucket.rate().max(1).into());
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}
