//! What a call holds once it is admitted.

use std::{
    fmt,
    ops::Deref,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::{decide::Granted, taken::Taken};
use crate::{Decision, Limits, Settlement, StoreError};

/// Permits that were granted to a call. Dropping it keeps what was taken: permits of a rate are spent,
/// not held.
///
/// It dereferences to the [`Decision`] that granted the permits. A cost that turns out otherwise is
/// corrected by [`settle`](Self::settle), or by [`record`](Self::record) if it becomes known in steps;
/// [`give_back`](Self::give_back) returns the permits of a call that did not happen.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Limits, Quota};
///
/// # async fn complete(_: &str) -> u64 { 700 }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().build().await?;
/// let tokens = limits.limiter("tokens", Quota::new(1_000, Duration::from_secs(60))?);
///
/// let permit = tokens.acquire(500).await?;        // an estimate
/// let used = complete("festina lente").await;     // 700, as it turns out
/// let settled = permit.settle(used).await?;
/// assert_eq!((settled.taken, settled.debt), (200, 0));
/// # Ok(())
/// # }
/// ```
pub struct Permit {
    decision: Decision,
    taken: Taken,
    limits: Limits,
    is_recorded: AtomicBool,
    recorded: AtomicU64,
}

impl Permit {
    pub(crate) fn new(limits: &Limits, granted: Granted) -> Self {
        let Granted { answer, taken, .. } = granted;
        Self {
            decision: answer.decision(&taken.core.family.key),
            taken,
            limits: limits.clone(),
            is_recorded: AtomicBool::new(false),
            recorded: AtomicU64::new(0),
        }
    }

    /// What a call got of two limiters together.
    pub(super) fn and(mut self, mut other: Self) -> Self {
        let (taken, limits) = self.take();
        let taken = taken.and(other.take().0);
        let decision = self.decision.clone().and(other.decision.clone());
        let (is_recorded, recorded) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { decision, taken, limits, is_recorded, recorded }
    }

    /// The number of permits that this grant took: 0 if nothing was counted, because the call was
    /// free, the limiter is in shadow mode or turned off, or `on_store_error` is `allow`. The methods
    /// below do nothing then.
    #[must_use]
    pub fn permits(&self) -> u64 {
        self.taken.permits().into()
    }

    /// Adds to the permits that the call really used. After the first record, dropping the permit
    /// settles it at the sum, without blocking: so a stream that is dropped midway pays for what it
    /// delivered.
    ///
    /// [`settle`](Self::settle) and [`give_back`](Self::give_back) ignore what was recorded.
    pub fn record(&self, used: u64) {
        let add = |sum: u64| Some(sum.saturating_add(used));
        let _ = self.recorded.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        self.is_recorded.store(true, Ordering::Release);
    }

    /// Corrects the cost to `actual`, once it is known: returns the difference to the limiter if it is
    /// less than what was taken, and charges the difference if it is more, as
    /// [`Limiter::charge`](crate::Limiter::charge) does.
    ///
    /// Once polled it finishes even if the future is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the store is unavailable or misconfigured.
    pub async fn settle(mut self, actual: u64) -> Result<Settlement, StoreError> {
        let (taken, limits) = self.take();
        let kept = limits.clone();
        limits.inner().engine.finish(async move { taken.settle(&kept, actual).await }).await
    }

    /// Returns what this grant took to the limiter, and returns how many permits were returned: fewer
    /// than were taken if some are free again already.
    ///
    /// Once polled it finishes even if the future is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the store is unavailable or misconfigured.
    pub async fn give_back(mut self) -> Result<u64, StoreError> {
        let (taken, limits) = self.take();
        let (kept, permits) = (limits.clone(), taken.permits());
        let back = async move { taken.give_back_some(kept.inner(), permits).await };
        limits.inner().engine.finish(back).await
    }

    /// What was taken, so that dropping the permit does nothing more.
    fn take(&mut self) -> (Taken, Limits) {
        *self.is_recorded.get_mut() = false;
        let nothing = Taken::nothing(&self.taken.core);
        (std::mem::replace(&mut self.taken, nothing), self.limits.clone())
    }
}

impl Deref for Permit {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.decision
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("permits", &self.permits())
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !*self.is_recorded.get_mut() {
            return;
        }
        let used = *self.recorded.get_mut();
        let (taken, limits) = self.take();
        taken.settle_later(&limits, used);
    }
}
