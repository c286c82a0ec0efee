//! Results of limiter calls.

mod made;

use std::{
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
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Decision, Limits, Quota};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().build().await?;
/// let search = limits.limiter("search", Quota::per_minute(2));
///
/// let permit = search.try_acquire(2).await?;
/// let admitted = Decision::clone(&permit);
/// assert_eq!((admitted.remaining(), admitted.retry_after()), (0, None));
///
/// let rejection = search.try_acquire(1).await.unwrap_err();
/// let rejected = rejection.decision().cloned();
/// assert!(rejected.is_some_and(|decision| decision.retry_after().is_some()));
/// # Ok(())
/// # }
/// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let all = limits.limiter("messages", Quota::per_minute(100));
    /// let ada = limits.limiter("messages:ada", Quota::per_minute(5));
    ///
    /// let permit = all.and(ada).try_acquire(1).await?;
    /// assert_eq!(permit.limiter(), "messages:ada", "80 % are left of it, and 99 % of the other one");
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(100));
    /// search.set_rate(Quota::per_minute(20)).await?;
    ///
    /// let permit = search.try_acquire(1).await?;
    /// assert_eq!(permit.quota(), Some(Quota::per_minute(20)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn quota(&self) -> Option<Quota> {
        self.quota
    }

    /// Returns the permits left after this decision; of several limits, the fewest. If nothing was
    /// counted, because the request was for 0 permits or `on_store_error` admitted it, it is the rate; of a disabled
    /// limiter, [`u64::MAX`].
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Quotas};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let quotas = Quotas::new([Quota::per_minute(30), Quota::per_hour(100)])?;
    /// let messages = limits.limiter("messages:ada", quotas);
    ///
    /// let permit = messages.try_acquire(10).await?;
    /// assert_eq!(permit.remaining(), 20, "of the minute; 90 remain of the hour");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns the time until the whole quota is free again if nothing else is taken; of several
    /// limits, the longest.
    ///
    /// This is not the IETF draft's `t`, which is the time until *more* is available.
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
    /// let search = limits.limiter("search", Quota::per_minute(60).token_bucket(60)?);
    ///
    /// let permit = search.try_acquire(30).await?;
    /// assert_eq!(permit.reset_after(), Duration::from_secs(30));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.reset_after
    }

    /// Returns the time until the same request can be granted, or `None` if it was granted or waiting cannot help.
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
    /// let reports = limits.limiter("reports", Quota::per_hour(60).token_bucket(10)?);
    /// reports.try_acquire(10).await?;
    ///
    /// let rejection = reports.try_acquire(5).await.unwrap_err();
    /// let wait = rejection.decision().and_then(|decision| decision.retry_after());
    /// assert!(wait > Some(Duration::from_secs(290)), "five permits take five minutes");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns whether `on_store_error` decided because the store was unavailable.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(feature = "test-util")] {
    /// use ratelimit_runtime::{Quota, StoreErrorKind, test_util};
    ///
    /// let (limits, _time) = test_util::limits();
    /// let search = limits.limiter("search", Quota::per_minute(100));
    /// assert!(!search.try_acquire(1).await?.is_degraded());
    ///
    /// test_util::set_store_error(&limits, Some(StoreErrorKind::Timeout));
    /// assert!(search.try_acquire(1).await?.is_degraded());
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Returns the reason for which the call would have been rejected outside [shadow
    /// mode](crate::guide::shadow), or `None` if it was granted. For a call over the limit it is
    /// [`Limited`](Reason::Limited), whether or not the call would have waited. A shadowed call took no permits.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Reason, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Settings::new(Quota::per_minute(1)).shadow(true));
    ///
    /// assert_eq!(search.try_acquire(1).await?.shadowed(), None);
    /// assert_eq!(search.try_acquire(1).await?.shadowed(), Some(Reason::Limited));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn shadowed(&self) -> Option<Reason> {
        self.shadowed
    }

    /// Returns the time of the decision, by the store's clock: the Redis server's, or this
    /// process's for the embedded store.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(feature = "test-util")] {
    /// use std::time::UNIX_EPOCH;
    /// use ratelimit_runtime::{Quota, test_util};
    ///
    /// let (limits, _time) = test_util::limits();
    /// let permit = limits.limiter("search", Quota::per_hour(100)).try_acquire(1).await?;
    ///
    /// let all_free_at = permit.at() + permit.reset_after();
    /// assert_eq!(all_free_at.duration_since(UNIX_EPOCH)?.as_secs(), 1_700_003_600);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn at(&self) -> SystemTime {
        self.at
    }

    /// Returns the decision of each limit of a key with [several limits](crate::guide::several_limits),
    /// the strictest first; of a key with one limit, this decision alone.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Quotas};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let quotas = Quotas::new([Quota::per_minute(10), Quota::per_hour(12)])?;
    /// let permit = limits.limiter("messages:ada", quotas).try_acquire(4).await?;
    ///
    /// let left: Vec<_> = permit.parts().iter().map(|part| (part.quota(), part.remaining())).collect();
    /// assert_eq!(left, [(Some(Quota::per_minute(10)), 6), (Some(Quota::per_hour(12)), 8)]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn parts(&self) -> &[Self] {
        match &self.parts {
            Some(parts) => parts,
            None => slice::from_ref(self),
        }
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
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limits, Quota};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().build().await?;
/// let tokens = limits.limiter("tokens", Quota::per_minute(1000));
///
/// let settled = tokens.acquire(600).await?.settle(450).await?;
/// assert_eq!(settled.returned, 150);
///
/// let charged = tokens.charge(2000).await?;
/// assert_eq!((charged.taken, charged.debt, charged.excess), (550, 1000, 450));
/// # Ok(())
/// # }
/// ```
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
