//! The limiter as users hold it.

mod quota;
mod stored;

use std::{sync::Arc, time::Duration};

use ratelimit_spec::Wait;

use super::{Claim, Core, acquire, admin::both, services::Services, taken::charge_all};
use crate::{Decision, Permit, Rejection, Settlement, StoreError};

/// A limiter for one key. Cheap to clone; all clones share one limiter.
///
/// Created by [`Limits::limiter`](crate::Limits::limiter), with the quota of the limits file by
/// [`Limits::configured`](crate::Limits::configured), or for a declared key by
/// [`limiter!`](crate::limiter). Its methods are those of Redisson's `RRateLimiter`, with more
/// detailed results; [the guide](crate::guide::redisson) compares them.
///
/// A request for 0 permits is free: it is granted without a call to the store. In
/// [shadow mode](crate::guide::shadow) no limit rejects or delays a request;
/// [`Decision::shadowed`] returns the reason for which it would have.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Limits, Quota, Reason};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Limits::builder().memory().build().await?;
/// let search = limits.limiter("search", Quota::new(3, Duration::from_secs(60))?);
///
/// let permit = search.try_acquire(2).await?;
/// assert_eq!(permit.remaining(), 1);
///
/// let rejection = search.try_acquire(2).await.unwrap_err();
/// assert_eq!(rejection.reason(), Reason::Limited);
/// assert!(rejection.retry_after().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    pub(super) core: Arc<Core>,
    /// The other limiters that a call takes from.
    others: Vec<Arc<Core>>,
    pub(super) limits: Arc<Services>,
}

impl Limiter {
    pub(crate) fn new(core: Arc<Core>, limits: Arc<Services>) -> Self {
        Self { core, others: Vec::new(), limits }
    }

    /// Returns the name under which its state is stored, `key_prefix` included; of
    /// [combined](Self::and) limiters, that of the first.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().key_prefix("shop:").build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// assert_eq!(search.name(), "shop:search");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.keys.config()
    }

    /// Returns a limiter that takes from both or from neither: from all limiters that `self` and
    /// `other` are made of, each of them once. A call that waits normally holds no permits; only one that has waited for
    /// each of them, or was overtaken several times, [takes them one after the
    /// other](crate::guide::algorithms#waiting-for-a-bucket) and keeps what it has.
    ///
    /// [`release`](Self::release), [`charge`](Self::charge), [`delete`](Self::delete),
    /// [`expire`](Self::expire), [`ttl`](Self::ttl) and the like apply to all of them, even if one
    /// of them fails: the first error is returned. A change of the rate is an error, because it does
    /// not name one.
    ///
    /// # Panics
    ///
    /// Panics if they belong to different [`Limits`](crate::Limits), which no store decides together.
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
    /// let minute = Duration::from_secs(60);
    /// let (user, all) = (Quota::new(2, minute)?, Quota::new(3, minute)?);
    /// let all = limits.limiter("search", all);
    /// let [one, two] = ["search:1", "search:2"].map(|name| limits.limiter(name, user));
    ///
    /// one.clone().and(all.clone()).try_acquire(2).await?;
    /// let rejection = two.clone().and(all).try_acquire(2).await.unwrap_err();
    /// assert_eq!(rejection.limiter(), "search");
    /// assert_eq!(two.available_permits().await?, 2, "it took from neither");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        assert!(
            Arc::ptr_eq(&self.limits, &other.limits),
            "`{}` and `{}` belong to different `Limits`; combine limiters of the same `Limits`",
            self.name(),
            other.name()
        );
        for core in std::iter::once(other.core).chain(other.others) {
            // `limiter!` and `Limits::limiter` can name one limiter.
            if !self.cores().any(|known| known.keys == core.keys) {
                self.others.push(core);
            }
        }
        self
    }

    pub(super) fn cores(&self) -> impl Iterator<Item = &Arc<Core>> {
        std::iter::once(&self.core).chain(&self.others)
    }

    /// Acquires permits, waiting as long as necessary, first come, first served among the callers
    /// of this process. Dropping the future leaves the queue, and returns the permits of a call to Redis that
    /// is still under way; only a reply that never arrives leaves them spent.
    ///
    /// # Errors
    ///
    /// Returns [`ExceedsCapacity`](crate::Reason::ExceedsCapacity) if the quota has fewer permits,
    /// [`QueueFull`](crate::Reason::QueueFull), [`NotConfigured`](crate::Reason::NotConfigured), and
    /// the rejections of the store and its policy.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let partner = limits.limiter("partner", Quota::new(2, Duration::from_millis(100))?);
    ///
    /// partner.acquire(2).await?;
    /// // Both permits are in use, so this call waits until they are free again.
    /// let permit = partner.acquire(1).await?;
    /// assert_eq!(permit.remaining(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self, permits: u64) -> Result<Permit, Rejection> {
        self.take(permits, Wait::Forever).await
    }

    /// Acquires permits if they are free, without waiting. Dropping the future has the same effect as for
    /// [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// Returns [`Limited`](crate::Reason::Limited) if they are not, or [`Blocked`](crate::Reason::Blocked) if a
    /// penalty blocks the key, with the time to retry after; otherwise as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota, Reason};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let login = limits.limiter("login", Quota::per_minute(1));
    ///
    /// assert!(login.try_acquire(1).await.is_ok());
    /// let rejection = login.try_acquire(1).await.unwrap_err();
    /// assert_eq!(rejection.reason(), Reason::Limited);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(&self, permits: u64) -> Result<Permit, Rejection> {
        self.take(permits, Wait::None).await
    }

    /// Acquires permits, waiting for at most `at_most`, in whole milliseconds. Dropping the future
    /// has the same effect as for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// Returns [`WaitTooLong`](crate::Reason::WaitTooLong) immediately if they cannot be free in
    /// time, or [`Blocked`](crate::Reason::Blocked) if a penalty blocks the key for longer; otherwise as for
    /// [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Quota, Reason};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let export = limits.limiter("export", Quota::per_minute(1));
    /// export.acquire(1).await?;
    ///
    /// // The next permit is free in a minute, so this call does not wait five seconds first.
    /// let rejection = export.acquire_timeout(1, Duration::from_secs(5)).await.unwrap_err();
    /// assert_eq!(rejection.reason(), Reason::WaitTooLong);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_timeout(
        &self,
        permits: u64,
        at_most: Duration,
    ) -> Result<Permit, Rejection> {
        self.take(permits, Wait::UpTo(at_most)).await
    }

    async fn take(&self, permits: u64, wait: Wait) -> Result<Permit, Rejection> {
        let (core, limits) = (&self.core, &self.limits);
        if let (Ok(permits), true) = (u32::try_from(permits), self.others.is_empty())
            && let Some(decided) = core.acquire_at_once(limits, permits, || wait)
        {
            return decided.map(|granted| Permit::at_once(core, granted, permits));
        }
        let claim =
            |core: &Arc<Core>| Claim { core: Arc::clone(core), permits, wait, fallible: true };
        let got = if self.others.is_empty() {
            acquire(limits, &[claim(core)]).await
        } else {
            let claims: Vec<Claim> = self.cores().map(claim).collect();
            acquire(limits, &claims).await
        };
        let got = got.map_err(|(_, rejection)| rejection)?;
        got.together().ok_or_else(|| core.unknown())
    }

    /// Returns what [`try_acquire`](Self::try_acquire) would return now, and takes nothing.
    ///
    /// # Errors
    ///
    /// Returns the rejection of such a request.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    ///
    /// assert_eq!(search.peek(4).await?.remaining(), 10);
    /// assert!(search.peek(11).await.is_err(), "more than it ever grants");
    /// assert_eq!(search.available_permits().await?, 10, "neither took any");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn peek(&self, permits: u64) -> Result<Decision, Rejection> {
        let mut strictest = self.core.peek(&self.limits, permits).await;
        for core in &self.others {
            let other = core.peek(&self.limits, permits).await;
            strictest = match (strictest, other) {
                (Ok(one), Ok(other)) => Ok(one.and(other)),
                (Err(one), Err(other)) => Err(one.not_before(other.retry_after())),
                (Err(rejection), Ok(_)) | (Ok(_), Err(rejection)) => Err(rejection),
            };
        }
        strictest
    }

    /// Charges permits for a cost that is known only afterwards, such as that of a long answer. Takes the permits that
    /// are free and records the rest as debt. A charge never waits, and no limit rejects it. To correct the cost of a
    /// call, use [`Permit::settle`].
    ///
    /// The debt is kept in the store, and every process pays it first: permits are granted once
    /// they and the whole debt are free, so that the quota holds in the long run. The debt is at
    /// most `max_debt`, by default what the limiter can ever grant at once. It is discarded if the
    /// limiter is [deleted](Self::delete) or its state is reset.
    ///
    /// Once polled it finishes even if the future is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if no quota is configured, or the store is misconfigured or unavailable; no
    /// debt is recorded then. With `on_store_error: local` this process's share is charged while
    /// the store is unavailable.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let tokens = limits.limiter("tokens", Quota::new(5, Duration::from_secs(60))?);
    ///
    /// tokens.acquire(1).await?;
    /// let answer = tokens.charge(6).await?;
    /// assert_eq!((answer.taken, answer.debt), (4, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn charge(&self, permits: u64) -> Result<Settlement, StoreError> {
        let (all, limits) = (self.cores().cloned().collect::<Vec<_>>(), self.limits.clone());
        let charge = async move { charge_all(&all, &limits, permits).await };
        self.limits.finish(charge).await
    }

    /// Returns the permits that are free now; of several limits, the fewest. Nothing is taken or written. A disabled
    /// limiter admits every call, so it has [`u64::MAX`].
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not reply or is misconfigured; no policy applies.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// search.acquire(4).await?;
    /// assert_eq!(search.available_permits().await?, 6);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn available_permits(&self) -> Result<u64, StoreError> {
        let mut least = u64::MAX;
        for core in self.cores() {
            least = least.min(core.available(&self.limits).await?);
        }
        Ok(least)
    }

    /// Releases permits and wakes waiting callers of this process. The oldest permits are released,
    /// so that no window can grant too many; [`Permit::give_back`] releases those of one call. The
    /// permits pay a debt first. Returns the number of permits released, which is lower if fewer
    /// are in use; of several limits, the highest.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// search.acquire(4).await?;
    ///
    /// assert_eq!(search.release(3).await?, 3);
    /// assert_eq!(search.available_permits().await?, 9);
    /// assert_eq!(search.release(3).await?, 1, "no more were in use");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(&self, permits: u64) -> Result<u64, StoreError> {
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        let mut most = Ok(0);
        for core in self.cores() {
            most = both(most, core.release(&self.limits, permits).await, u64::max);
        }
        most
    }
}
