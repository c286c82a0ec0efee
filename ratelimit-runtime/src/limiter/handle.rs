//! The limiter as users hold it.

use std::{sync::Arc, time::Duration};

use super::{Core, Patience, manage::expiry_ms};
use crate::{
    Charge, Decision, Limits, Quota, Quotas, Rejection, StoreError,
    store::{Config, Expiry, KeepState, WriteWhen},
};

/// One limiter under one key. Cheap to clone; clones are the same limiter.
///
/// Made by [`Limits::limiter`](crate::Limits::limiter), or for a declared key by
/// [`limiter!`](crate::limiter). Its methods are those of Redisson's `RRateLimiter`, with
/// answers that say more; [the guide](crate::guide::redisson) has them side by side.
///
/// In [shadow mode](crate::guide::shadow) no limit refuses a request or makes it wait; the decision
/// says that it would have.
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
/// let decision = search.try_acquire(2).await?;
/// assert_eq!((decision.allowed, decision.remaining), (true, 1));
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

    pub(crate) fn into_parts(self) -> (Arc<Core>, Limits) {
        (self.core, self.limits)
    }

    /// The name its state lives under, `key_prefix` included.
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.keys.config()
    }

    /// Takes permits, waiting for them as long as it takes, first come, first served among the
    /// callers of this process. Dropping the future gives the place up; dropped at the very moment in
    /// which Redis is being asked, it may have spent the permits.
    ///
    /// # Errors
    ///
    /// [`ExceedsCapacity`](crate::Reason::ExceedsCapacity) when the quota has fewer permits, and
    /// what the store and its policy refuse.
    pub async fn acquire(&self, permits: u32) -> Result<Decision, Rejection> {
        self.core.acquire(&self.limits, permits, Patience::Forever).await
    }

    /// Takes permits if they are free, without waiting.
    ///
    /// # Errors
    ///
    /// [`Limited`](crate::Reason::Limited) when they are not, with the time to retry after;
    /// otherwise as for [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, permits: u32) -> Result<Decision, Rejection> {
        self.core.acquire(&self.limits, permits, Patience::None).await
    }

    /// Takes permits, waiting for them no longer than `timeout`, in whole milliseconds.
    ///
    /// # Errors
    ///
    /// [`WaitTooLong`](crate::Reason::WaitTooLong) at once when they cannot be free in time;
    /// otherwise as for [`acquire`](Self::acquire).
    pub async fn acquire_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<Decision, Rejection> {
        self.core.acquire(&self.limits, permits, Patience::UpTo(timeout)).await
    }

    /// Takes permits for a cost that is known only now, such as that of a call that is over: as many
    /// as are free, and the others are owed. Nothing waits, and no limit refuses it.
    ///
    /// Whoever asks this limiter next in this process pays first: its permits are granted when they
    /// and all that is owed are free, so that the quota holds in the long run. As many permits can be
    /// owed as the limiter can ever grant at once; the answer says what is in excess of that. A debt is
    /// forgotten when the limiter is [deleted](Self::delete) or set anew with what it has in use, when
    /// so many others are used that this one is not remembered, and when the process ends.
    ///
    /// # Errors
    ///
    /// What keeps anybody from counting: no quota, or a store that is set up wrongly; nothing is owed
    /// then. A store that does not answer is no error: everything is owed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Quota, Rejection};
    /// # async fn complete(_: &str) -> u32 { 700 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let tokens = limits.limiter("tokens", Quota::new(1_000, Duration::from_secs(60))?);
    ///
    /// tokens.acquire(500).await?;                     // what the call will cost at least
    /// let used = complete("festina lente").await;     // 700, as it turns out
    /// let charge = tokens.charge(used - 500).await?;
    /// assert_eq!((charge.taken, charge.debt), (200, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn charge(&self, permits: u32) -> Result<Charge, Rejection> {
        self.core.charge(&self.limits, permits).await
    }

    /// Permits that this process owes, because it was [charged](Self::charge) more than was free.
    #[must_use]
    pub fn debt(&self) -> u64 {
        self.core.debt()
    }

    /// Says what a request for one permit would get, without taking it.
    ///
    /// # Errors
    ///
    /// What the store and its policy refuse.
    pub async fn peek(&self) -> Result<Decision, Rejection> {
        self.core.peek(self.limits.inner()).await
    }

    /// The quota in force, of [several](crate::guide::several_limits) the first: the store's, as of the last decision, or the configured one before any.
    ///
    /// # Errors
    ///
    /// [`NotConfigured`](crate::Reason::NotConfigured) when nothing says what the quota is.
    pub fn quota(&self) -> Result<Quota, Rejection> {
        let config = self.core.known(self.limits.inner())?;
        Ok(config.quota())
    }

    /// All quotas in force, the shortest window first.
    ///
    /// # Errors
    ///
    /// As for [`quota`](Self::quota).
    pub fn quotas(&self) -> Result<Quotas, Rejection> {
        self.core.quotas(self.limits.inner())
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
    /// ones are given back, so that no window can come to hold too many. What this process
    /// [owes](Self::debt) is paid with them first. Returns how many there were to give back, which is
    /// fewer when fewer are in use; of several limits, the most.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn release(&self, permits: u32) -> Result<u64, StoreError> {
        self.core.release_in_each(self.limits.inner(), permits).await
    }

    /// Sets the quota if none is stored, and returns whether it did.
    ///
    /// A quota that was set on purpose is what everybody goes by until a process starts that is
    /// configured otherwise. Of several limits it changes the one with the same window and algorithm.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits), and when none of several limits has the
    /// window and the algorithm of the quota.
    pub async fn try_set_rate(&self, quota: &Quota) -> Result<bool, StoreError> {
        self.core.write_one(self.limits.inner(), quota, WriteWhen::Absent, KeepState::Reset).await
    }

    /// Sets the quota whatever is stored, and forgets what was used. The mode and the keep-alive that
    /// are stored stay.
    ///
    /// # Errors
    ///
    /// As for [`try_set_rate`](Self::try_set_rate).
    pub async fn set_rate(&self, quota: &Quota) -> Result<(), StoreError> {
        let write =
            self.core.write_one(self.limits.inner(), quota, WriteWhen::Always, KeepState::Reset);
        write.await.map(|_| ())
    }

    /// Changes the quota of a limiter that is stored, and returns whether there was one. With
    /// [`KeepState::Keep`] what was used still counts, even where it is more than the new quota.
    ///
    /// # Errors
    ///
    /// As for [`try_set_rate`](Self::try_set_rate).
    pub async fn update_rate(&self, quota: &Quota, state: KeepState) -> Result<bool, StoreError> {
        self.core.write_one(self.limits.inner(), quota, WriteWhen::Present, state).await
    }

    /// What the store holds, of several limits of the first, asked now; `None` when nobody ever configured the limiter.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn config(&self) -> Result<Option<Config>, StoreError> {
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
