//! The limiter as users hold it.

use std::{sync::Arc, time::Duration};

use super::{
    Core, Patience,
    manage::expiry_ms,
    permit::{store_error, to_its_end},
};
use crate::{
    Decision, LimiterConfig, Limits, Permit, Quotas, RateChange, Reason, Rejection, Settlement,
    StoreError,
    store::{Expiry, WriteWhen},
};

/// One limiter under one key. Cheap to clone; clones are the same limiter.
///
/// Made by [`Limits::limiter`](crate::Limits::limiter), or for a declared key by
/// [`limiter!`](crate::limiter). Its methods are those of Redisson's `RRateLimiter`, with
/// answers that say more; [the guide](crate::guide::redisson) has them side by side.
///
/// A request for 0 permits is free: it is granted without a call to the store. In
/// [shadow mode](crate::guide::shadow) no limit rejects or delays a request;
/// [`Decision::shadowed`] says what it would have done.
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
    core: Arc<Core>,
    limits: Limits,
}

impl Limiter {
    pub(crate) fn new(core: Arc<Core>, limits: Limits) -> Self {
        Self { core, limits }
    }

    /// The name its state lives under, `key_prefix` included.
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.keys.config()
    }

    /// Takes permits, waiting for them as long as it takes, first come, first served among the
    /// callers of this process. A dropped future gives its place up; if it is dropped during the call to
    /// Redis, the permits may be spent.
    ///
    /// # Errors
    ///
    /// Returns [`ExceedsCapacity`](Reason::ExceedsCapacity) if the quota has fewer permits, and what
    /// the store and its policy reject.
    pub async fn acquire(&self, permits: u64) -> Result<Permit, Rejection> {
        self.take(permits, Patience::Forever).await
    }

    /// Takes permits if they are free, without waiting.
    ///
    /// # Errors
    ///
    /// Returns [`Limited`](Reason::Limited) if they are not, with the time to retry after; otherwise
    /// as for [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, permits: u64) -> Result<Permit, Rejection> {
        self.take(permits, Patience::None).await
    }

    /// Takes permits, waiting for them no longer than `at_most`, in whole milliseconds. A dropped future
    /// does what one of [`acquire`](Self::acquire) does.
    ///
    /// # Errors
    ///
    /// Returns [`WaitTooLong`](Reason::WaitTooLong) at once if they cannot be free in time; otherwise
    /// as for [`acquire`](Self::acquire).
    pub async fn acquire_timeout(
        &self,
        permits: u64,
        at_most: Duration,
    ) -> Result<Permit, Rejection> {
        self.take(permits, Patience::UpTo(at_most)).await
    }

    async fn take(&self, permits: u64, patience: Patience) -> Result<Permit, Rejection> {
        let (core, limits) = (&self.core, &self.limits);
        if permits == 0 {
            return Ok(Permit::of_nothing(core, &core.free(limits.inner())));
        }
        let Ok(count) = u32::try_from(permits) else {
            let answer = core.refuse_oversized(limits.inner(), permits)?;
            return Ok(Permit::of_nothing(core, &answer));
        };
        let answer = core.acquire(limits, count, patience).await?;
        Ok(Permit::new(core, limits, count, &answer))
    }

    /// Returns what [`try_acquire`](Self::try_acquire) would return now, and takes nothing.
    ///
    /// # Errors
    ///
    /// Returns the rejection of such a request.
    pub async fn peek(&self, permits: u64) -> Result<Decision, Rejection> {
        let (core, limits) = (&self.core, self.limits.inner());
        let answer = match u32::try_from(permits) {
            Ok(0) => core.free(limits),
            Ok(permits) => core.peek(limits, permits).await?,
            Err(_) => core.peek_oversized(limits, permits)?,
        };
        if answer.allowed {
            Ok(answer.decision(&core.family.key))
        } else {
            Err(core.refused(Reason::Limited, &answer))
        }
    }

    /// Takes permits for a cost that is known only now, such as a penalty: as many as are free, and the
    /// rest is owed. It neither waits nor is rejected by a limit. To correct the cost of a call, use
    /// [`Permit::settle`].
    ///
    /// The next caller of this process pays the debt first: its permits are granted when they and all
    /// that is owed are free, so that the quota holds in the long run. The debt is at most what the
    /// limiter can ever grant at once. It is forgotten when the limiter is [deleted](Self::delete) or
    /// its state reset, when the limiter is evicted from the cache, and when the process ends.
    ///
    /// Once polled it finishes even if the future is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if no quota is configured or the store is misconfigured; nothing is owed then.
    /// If the store is unavailable, everything is owed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let login = limits.limiter("login", Quota::new(5, Duration::from_secs(60))?);
    ///
    /// login.acquire(1).await?;
    /// let penalty = login.charge(6).await?;
    /// assert_eq!((penalty.taken, penalty.debt), (4, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn charge(&self, permits: u64) -> Result<Settlement, StoreError> {
        let (core, limits) = (Arc::clone(&self.core), self.limits.clone());
        let charge = async move {
            let settlement = core.charge(&limits, permits).await;
            settlement.map_err(|rejection| store_error(&rejection))
        };
        to_its_end(charge).await
    }

    /// The quotas in force, the shortest window first: the store's as of the last decision, or the
    /// configured ones before any. `None` if none is known. Nothing is queried.
    #[must_use]
    pub fn quotas(&self) -> Option<Quotas> {
        self.core.quotas(self.limits.inner()).ok()
    }

    /// Permits that are free now; of several limits, the fewest. Nothing is taken or written.
    ///
    /// # Errors
    ///
    /// What keeps the store from answering; no policy stands in for it.
    pub async fn available_permits(&self) -> Result<u64, StoreError> {
        self.core.available_in_each(self.limits.inner()).await
    }

    /// Gives permits back, and lets waiting callers of this process look again at once. The oldest
    /// ones are given back, so that no window can come to hold too many; those of one call go back by
    /// [`Permit::give_back`]. What this process owes is paid with them first. Returns how many there were
    /// to give back, which is fewer if fewer are in use; of several limits, the most.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn release(&self, permits: u64) -> Result<u64, StoreError> {
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        self.core.release_in_each(self.limits.inner(), permits).await
    }

    /// Sets the quota if none is stored, and returns whether it did.
    ///
    /// All processes apply a quota that was set on purpose until a process starts that is configured
    /// otherwise. Of several limits it changes the one with the same window and algorithm.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits), and if none of several limits has the
    /// window and the algorithm of the quota.
    pub async fn try_set_rate(&self, to: impl Into<RateChange>) -> Result<bool, StoreError> {
        self.change(to.into(), WriteWhen::Absent).await
    }

    /// Sets the quota unconditionally, and forgets what was used unless the change
    /// [carries](RateChange::carry) it. The stored mode and keep-alive stay, unless the change sets
    /// them.
    ///
    /// # Errors
    ///
    /// As for [`try_set_rate`](Self::try_set_rate).
    pub async fn set_rate(&self, to: impl Into<RateChange>) -> Result<(), StoreError> {
        self.change(to.into(), WriteWhen::Always).await.map(|_| ())
    }

    /// Changes the quota of a limiter that is stored, and returns whether there was one; otherwise as
    /// [`set_rate`](Self::set_rate).
    ///
    /// # Errors
    ///
    /// As for [`try_set_rate`](Self::try_set_rate).
    pub async fn update_rate(&self, to: impl Into<RateChange>) -> Result<bool, StoreError> {
        self.change(to.into(), WriteWhen::Present).await
    }

    async fn change(&self, change: RateChange, when: WriteWhen) -> Result<bool, StoreError> {
        self.core.write_change(self.limits.inner(), &change, when).await
    }

    /// Returns what the store holds now, or `None` if the limiter is not stored.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn config(&self) -> Result<Option<LimiterConfig>, StoreError> {
        self.core.stored_config(self.limits.inner()).await
    }

    /// Whether the limiter is stored.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn exists(&self) -> Result<bool, StoreError> {
        self.core.exists_any(self.limits.inner()).await
    }

    /// Deletes the limiter with everything that is used, and returns whether there was one. The next
    /// request of a process that has numbers for it makes it anew.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn delete(&self) -> Result<bool, StoreError> {
        self.core.delete_each(self.limits.inner()).await
    }

    /// Lets the limiter expire after this time, in whole milliseconds, and returns whether there was
    /// one. Where a keep-alive is set the next use puts that in its place.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn expire(&self, after: Duration) -> Result<bool, StoreError> {
        self.set_expiry(Expiry::At(expiry_ms(after))).await
    }

    /// Takes an expiry away, and returns whether there was one.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn clear_expire(&self) -> Result<bool, StoreError> {
        self.set_expiry(Expiry::Cleared).await
    }

    /// Lets the limiter expire when it was not used for this long, in whole milliseconds, or never
    /// with `None`; returns whether there was one. It is the stored keep-alive: the limits file's
    /// `keep_alive` takes its place when a process starts that has one. One shorter than the window
    /// counts as the window.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn set_keep_alive(&self, idle: Option<Duration>) -> Result<bool, StoreError> {
        self.core.keep_each_alive(self.limits.inner(), idle).await
    }

    /// How long the limiter, or the last of its limits, has left; `None` when it does not expire, or does not exist.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn ttl(&self) -> Result<Option<Duration>, StoreError> {
        self.core.longest_ttl(self.limits.inner()).await
    }

    async fn set_expiry(&self, expiry: Expiry) -> Result<bool, StoreError> {
        self.core.expire_each(self.limits.inner(), expiry).await
    }
}
