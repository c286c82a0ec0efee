//! What a call holds once it is admitted.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use ratelimit_spec::{Mode, RefundOn};
use tokio::runtime::Handle;

use super::{Core, policy::unlimited, settle::Taken};
use crate::{
    Answer, Decision, Limits, Reason, Rejection, Settlement, StoreError, limits::Inner,
    store::Config,
};

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
    held: Option<Held>,
    is_recorded: AtomicBool,
    recorded: AtomicU64,
}

/// What was taken, and where.
struct Held {
    taken: Taken,
    limits: Limits,
}

impl Permit {
    pub(crate) fn new(core: &Arc<Core>, limits: &Limits, permits: u32, answer: &Answer) -> Self {
        let taken = Taken::by(Arc::clone(core), limits.inner(), permits, answer);
        Self::of(core, answer, taken.map(|taken| Held { taken, limits: limits.clone() }))
    }

    /// The permit of a call that took nothing.
    pub(crate) fn of_nothing(core: &Core, answer: &Answer) -> Self {
        Self::of(core, answer, None)
    }

    /// The permit of a call that no limiter decided.
    pub(crate) fn of_no_limiter() -> Self {
        Self::with(Decision::of_no_limiter(), None)
    }

    fn of(core: &Core, answer: &Answer, held: Option<Held>) -> Self {
        Self::with(answer.decision(&core.family.key), held)
    }

    fn with(decision: Decision, held: Option<Held>) -> Self {
        let (is_recorded, recorded) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { decision, held, is_recorded, recorded }
    }

    /// Returns which calls give permits back to the limiter, or `None` if this one took none.
    pub(crate) fn refund_on(&self) -> Option<RefundOn> {
        self.held.as_ref().map(|held| held.taken.refund_on(held.limits.inner()))
    }

    /// The number of permits that this grant took: 0 if nothing was counted, because the call was
    /// free, the limiter is in shadow mode or turned off, or `on_store_error` is `allow`. The methods
    /// below do nothing then.
    #[must_use]
    pub fn permits(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.taken.permits())
    }

    /// Adds to the permits that the call really used. After the first record, dropping the permit
    /// settles it at the sum, without blocking: so a stream that is dropped midway pays for what it
    /// delivered.
    ///
    /// [`settle`](Self::settle) and [`give_back`](Self::give_back) ignore what was recorded. Outside
    /// a tokio runtime a dropped permit cannot be settled, and keeps what was taken.
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
        let Some(Held { taken, limits }) = self.held.take() else {
            return Ok(Settlement::default());
        };
        to_its_end(async move { taken.settle(&limits, actual).await }).await
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
        let Some(Held { taken, limits }) = self.held.take() else { return Ok(0) };
        to_its_end(async move { taken.return_all(limits.inner()).await }).await
    }
}

impl Core {
    /// What there is to say of a call that costs nothing. Neither the store nor a counter is asked.
    pub(crate) fn free(&self, limits: &Inner) -> Answer {
        match self.known(limits) {
            Ok(config) => unlimited(limits, config),
            Err(_) => {
                let unknown = Config::new(0, 1, Mode::Overall);
                Answer { off: true, ..unlimited(limits, unknown) }
            }
        }
    }

    /// What there is to say of more permits than any request can get.
    pub(super) fn oversized(&self, limits: &Inner, permits: u64) -> Result<Answer, Rejection> {
        let numbers = self.numbers(limits)?;
        if !numbers.effective.enabled.value {
            return Ok(Answer { off: true, ..unlimited(limits, numbers.config) });
        }
        Err(match self.in_force() {
            Some(config) => self.too_many(permits, config),
            None if numbers.follow => {
                let detail = format!("requested {permits}");
                self.rejection(Reason::ExceedsCapacity).with_detail(detail)
            }
            None => self.too_many(permits, numbers.config),
        })
    }

    /// The same for a look that takes nothing.
    pub(super) fn peek_oversized(&self, limits: &Inner, permits: u64) -> Result<Answer, Rejection> {
        let answer = self.oversized(limits, permits);
        if self.is_shadowed(limits) { self.in_shadow(limits, answer) } else { answer }
    }

    /// Refuses a call that costs more permits than any request can get; in shadow mode it goes ahead.
    pub(crate) fn refuse_oversized(
        &self,
        limits: &Inner,
        permits: u64,
    ) -> Result<Answer, Rejection> {
        let answer = match self.oversized(limits, permits) {
            Err(rejection) if self.is_shadowed(limits) => {
                self.would_refuse(limits, || rejection.clone());
                self.in_shadow(limits, Err(rejection))
            }
            answer => answer,
        };
        self.tally(answer.is_ok());
        answer
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
        let Some(Held { taken, limits }) = self.held.take() else { return };
        let used = *self.recorded.get_mut();
        settle_later(limits.inner().store.is_shared(), async move {
            if taken.settle(&limits, used).await.is_err() {
                taken.count_as_degraded();
            }
        });
    }
}

/// Runs a settlement off the caller's path. What waits for no store is done at once, so that the next call finds it done;
/// the rest is handed to the caller's runtime. Outside of one, a shared store cannot be called.
fn settle_later(is_shared: bool, settlement: impl Future<Output = ()> + Send + 'static) {
    let runtime = Handle::try_current();
    if runtime.is_err() && is_shared {
        return;
    }
    let mut settlement = Box::pin(settlement);
    let first = settlement.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    if let (Poll::Pending, Ok(runtime)) = (first, runtime) {
        runtime.spawn(settlement);
    }
}

/// Runs a future to its end even if the caller is dropped meanwhile. Outside a tokio runtime it ends
/// with the caller.
pub(super) async fn to_its_end<T: Send + 'static>(
    future: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    match Handle::try_current() {
        Ok(runtime) => runtime
            .spawn(future)
            .await
            .unwrap_or_else(|_| Err(StoreError::unavailable("the runtime of the call has ended"))),
        Err(_) => future.await,
    }
}

/// Why a charge could not be made.
pub(super) fn store_error(rejection: &Rejection) -> StoreError {
    let own = rejection.store_error().cloned();
    own.unwrap_or_else(|| StoreError::misconfigured(rejection.to_string()))
}
