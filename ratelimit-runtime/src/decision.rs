//! Results of limiter calls.

use std::{
    cmp::Reverse,
    fmt, slice,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::Quota;

/// The result of one request for permits, from one round trip.
///
/// A [`Permit`](crate::Permit) dereferences to the decision that admitted its call; a
/// [`Rejection`](crate::Rejection) has the one that rejected it. It is small and contains no key
/// values, so it can be kept in a request's extensions or logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub(crate) limiter: Arc<str>,
    /// `None` if the limiter is disabled.
    pub(crate) quota: Option<Quota>,
    pub(crate) remaining: u64,
    pub(crate) reset_after: Duration,
    /// The time until more permits are free than remain; zero if all are. The IETF draft's `t`.
    pub(crate) more_after: Duration,
    pub(crate) retry_after: Option<Duration>,
    /// Whether a store counted the request, so that it is known what remains.
    pub(crate) counted: bool,
    pub(crate) degraded: bool,
    /// Whether the limiter is in shadow mode.
    pub(crate) shadow: bool,
    /// Why it would have been rejected outside shadow mode; no permits were taken.
    pub(crate) shadowed: Option<Reason>,
    /// Whether a penalty blocks the key.
    pub(crate) blocked: bool,
    pub(crate) at: SystemTime,
    /// The exceeded limits, if the key has several.
    pub(crate) violated: Option<Arc<[Quota]>>,
    /// One decision for each of several limits.
    pub(crate) parts: Option<Arc<[Decision]>>,
}

impl Decision {
    /// Returns the limiter's key as it was written, such as `orders:{user_id}`.
    #[must_use]
    pub fn limiter(&self) -> &str {
        &self.limiter
    }

    /// Returns the quota in force, or `None` if the limiter is disabled. Of several limits it is the
    /// strictest: the exceeded one with the longest wait, or on a grant the one with the smallest share left.
    ///
    /// It is the store's quota, which may differ from the one that this process is configured with: see
    /// the chapter on [reconciliation](crate::guide::reconciliation). While the store is unavailable, it is still the
    /// quota of all processes, though the other values are those of this process's share.
    #[must_use]
    pub fn quota(&self) -> Option<Quota> {
        self.quota
    }

    /// Returns the permits left after this decision; of several limits, the fewest. If nothing was
    /// counted, because the request was for 0 permits or `on_store_error` admitted it, it is the rate; of a disabled
    /// limiter, [`u64::MAX`].
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns the time until the whole quota is free again if nothing else is taken; of several
    /// limits, the longest.
    ///
    /// This is not the IETF draft's `t`, which is the time until *more* is available.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.reset_after
    }

    /// Returns the time until the same request can be granted, or `None` if it was granted or waiting cannot help.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns whether `on_store_error` decided because the store was unavailable.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Returns the reason for which the call would have been rejected outside [shadow
    /// mode](crate::guide::shadow), or `None` if it was granted. For a call over the limit it is
    /// [`Limited`](Reason::Limited), whether or not the call would have waited. A shadowed call took no permits.
    #[must_use]
    pub fn shadowed(&self) -> Option<Reason> {
        self.shadowed
    }

    /// Returns the time of the decision, by the store's clock: the Redis server's, or this
    /// process's for the embedded store.
    #[must_use]
    pub fn at(&self) -> SystemTime {
        self.at
    }

    /// Returns the decision of each limit of a key with [several limits](crate::guide::several_limits),
    /// the strictest first; of a key with one limit, this decision alone.
    #[must_use]
    pub fn parts(&self) -> &[Self] {
        match &self.parts {
            Some(parts) => parts,
            None => slice::from_ref(self),
        }
    }
}

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
    /// free again. A bucket that spaces its permits may not free them: its decision does not change.
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
        settled.remaining = self.remaining.saturating_add(taken).saturating_sub(used).min(all);
        if settled.remaining == all {
            (settled.reset_after, settled.more_after) = (Duration::ZERO, Duration::ZERO);
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

/// The reason for a rejection. Implements `Display`, for a log that has the limiter already.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::Reason;
///
/// assert_eq!(Reason::Limited.to_string(), "rate limit exceeded");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The limit is exceeded, and the call does not wait.
    Limited,
    /// The limit is exceeded, and the required wait is longer than allowed.
    WaitTooLong,
    /// The key is blocked by its [penalty](crate::Penalty), after rejections in several consecutive
    /// windows; [`retry_after`](crate::Rejection::retry_after) is the time until the block is over and
    /// the permits are free.
    Blocked,
    /// The queue of this limiter in this process is full (`max_waiters`).
    QueueFull,
    /// The request is for more permits than the limiter can ever grant at once, so no wait helps.
    ExceedsCapacity,
    /// No quota is configured for the limiter, neither here nor in the store. Or a web layer or
    /// extractor does not know the address of the peer.
    NotConfigured,
    /// The store was unavailable or timed out, and `on_store_error` is `reject`; or the limits were
    /// [shut down](crate::Limits::shutdown). Maps to HTTP 503 rather than 429, because the client is not at fault.
    StoreUnavailable,
    /// The store returned an error that waiting does not resolve, such as a wrong password or a key
    /// that holds other data; or no limits were installed, and the default ones could not be set up.
    StoreMisconfigured,
}

impl Reason {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::StoreMisconfigured as usize + 1;

    /// Returns the reason's name in metrics and spans.
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Limited => "limited",
            Self::WaitTooLong => "wait_too_long",
            Self::Blocked => "blocked",
            Self::QueueFull => "queue_full",
            Self::ExceedsCapacity => "exceeds_capacity",
            Self::NotConfigured => "not_configured",
            Self::StoreUnavailable => "store_unavailable",
            Self::StoreMisconfigured => "store_misconfigured",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limited => "rate limit exceeded",
            Self::WaitTooLong => {
                "rate limit exceeded, and no permit becomes free within the allowed wait"
            }
            Self::Blocked => "rate limit exceeded too often, and the key is blocked",
            Self::QueueFull => "too many calls are waiting",
            Self::ExceedsCapacity => "more permits than the rate limit can ever grant at once",
            Self::NotConfigured => "no quota",
            Self::StoreUnavailable => "store unavailable",
            Self::StoreMisconfigured => "rate limit misconfigured",
        })
    }
}

/// The result of settling a cost that became known, by [`Permit::settle`](crate::Permit::settle) or
/// [`Limiter::charge`](crate::Limiter::charge).
///
/// All permits that were charged are in `taken`, `debt` or `excess`. If they were charged to several limits, it is the result
/// of the one with the greatest excess, or else with the most debt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Settlement {
    /// Permits that were returned to the limiter.
    pub returned: u64,
    /// Permits that were free and are taken now, including those of an earlier debt.
    pub taken: u64,
    /// Permits that are owed now, in all: at most `max_debt`, by default as many as the limiter can
    /// ever grant at once.
    pub debt: u64,
    /// Permits beyond that debt, which are not charged.
    pub excess: u64,
}

impl Settlement {
    /// Returns the one to report for both limits; the other one if they are equal.
    pub(crate) fn stricter(self, other: Self) -> Self {
        if (other.excess, other.debt) >= (self.excess, self.debt) { other } else { self }
    }
}
