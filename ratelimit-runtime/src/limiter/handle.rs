//! The limiter as users hold it.

use std::{sync::Arc, time::Duration};

use super::{Core, Patience};
use crate::{Decision, Limits, Quota, Rejection};

/// One limiter under one key. Cheap to clone; clones are the same limiter.
///
/// Made by [`Limits::limiter`](crate::Limits::limiter), or for a declared key by
/// [`limiter!`](crate::limiter). Its methods are those of Redisson's `RRateLimiter`, with
/// answers that say more.
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

    /// The name its state lives under, `key_prefix` included.
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.keys.config()
    }

    /// Takes permits, waiting for them as long as it takes, first come, first served among the
    /// callers of this process. Dropping the future gives the place up.
    ///
    /// # Errors
    ///
    /// [`ExceedsCapacity`](crate::Reason::ExceedsCapacity) when the quota has fewer permits, and
    /// what the store and its policy refuse.
    pub async fn acquire(&self, permits: u32) -> Result<Decision, Rejection> {
        self.core
            .acquire(self.limits.inner(), permits, Patience::Forever)
            .await
    }

    /// Takes permits if they are free, without waiting.
    ///
    /// # Errors
    ///
    /// [`Limited`](crate::Reason::Limited) when they are not, with the time to retry after;
    /// otherwise as for [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, permits: u32) -> Result<Decision, Rejection> {
        self.core
            .acquire(self.limits.inner(), permits, Patience::None)
            .await
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
        self.core
            .acquire(self.limits.inner(), permits, Patience::UpTo(timeout))
            .await
    }

    /// Says what a request for one permit would get, without taking it.
    ///
    /// # Errors
    ///
    /// What the store and its policy refuse.
    pub async fn peek(&self) -> Result<Decision, Rejection> {
        self.core.peek(self.limits.inner()).await
    }

    /// The quota in force: the store's, as of the last decision, or the configured one before any.
    ///
    /// # Errors
    ///
    /// [`NotConfigured`](crate::Reason::NotConfigured) when nothing says what the quota is.
    pub fn quota(&self) -> Result<Quota, Rejection> {
        let (_, configured) = self.core.effective(self.limits.inner())?;
        let config = self.core.in_force().unwrap_or(configured);
        Ok(Quota::stored(config.rate, config.per_ms))
    }
}
