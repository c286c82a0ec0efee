//! The permits of an admitted call.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::UNIX_EPOCH,
};

use once_cell::race::OnceBox;
use ratelimit_spec::RefundOn;

use super::{
    Core,
    taken::{Answer, Source, Taken},
};
use crate::{Decision, Settlement, StoreError, store::Grant};

/// Permits that were granted to a call. Dropping it keeps what was taken: permits of a rate are spent,
/// not held.
///
/// It dereferences to the [`Decision`] that granted the permits. If the real cost differs,
/// [`settle`](Self::settle) corrects it, or [`record`](Self::record) if it becomes known in steps;
/// [`give_back`](Self::give_back) returns the permits of a call that did not happen. All three work
/// only while the [`Limits`](crate::Limits) or one of its limiters exists: a permit does not keep the connection open.
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
    made: Made,
    is_recorded: AtomicBool,
    recorded: AtomicU64,
}

/// The contents of a permit.
enum Made {
    /// The answer of one limiter, which decided immediately. Few callers read the decision.
    OfAnswer(Answered, OnceBox<Decision>),
    OfDecision(Box<Decided>),
}

struct Decided {
    decision: Decision,
    taken: Option<Taken>,
    /// `None` if the call is not observed, or is settled.
    observation: Option<Observation>,
}

/// What the observers of a call learn of its permit: nothing while it can be settled; then the decision on a call that
/// used what it is settled at, or `None` if it was not settled.
pub(crate) type Fate = Arc<OnceLock<Option<Decision>>>;

/// The permit's side.
struct Observation(Fate);

impl Observation {
    /// Replaces the decision by that on a call that used what the permit is settled at.
    fn settle(self, decision: Decision) {
        let _ = self.0.set(Some(decision));
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let _ = self.0.set(None);
    }
}

struct Answered {
    core: Arc<Core>,
    answer: Answer,
    source: Source,
    /// 0 after the permits were taken out.
    permits: u32,
}

impl Answered {
    fn permits(&self) -> u32 {
        if self.answer.grants() { self.permits } else { 0 }
    }
}

impl Permit {
    pub(super) fn new(decision: Decision, taken: Taken) -> Self {
        Self::of(decision, taken.is_counted().then_some(taken))
    }

    /// The permit of a call that one limiter decided immediately.
    #[inline]
    pub(crate) fn at_once(
        core: &Arc<Core>,
        (answer, source): (Answer, Source),
        permits: u32,
    ) -> Self {
        let answered = Answered { core: Arc::clone(core), answer, source, permits };
        Self::made(Made::OfAnswer(answered, OnceBox::new()))
    }

    /// The permit of a call that never releases or corrects permits.
    #[cfg(feature = "tower")]
    pub(crate) fn unsettled(decision: Decision) -> Self {
        Self::of(decision, None)
    }

    /// The permit of a call that no limiter decided.
    pub(crate) fn of_no_limiter() -> Self {
        Self::of(Decision::uncounted("".into(), UNIX_EPOCH), None)
    }

    fn of(decision: Decision, taken: Option<Taken>) -> Self {
        Self::made(Made::OfDecision(Box::new(Decided { decision, taken, observation: None })))
    }

    fn made(made: Made) -> Self {
        Self { made, is_recorded: AtomicBool::new(false), recorded: AtomicU64::new(0) }
    }

    /// Takes the held permits out.
    fn take(&mut self) -> Option<Taken> {
        match &mut self.made {
            Made::OfAnswer(answered, _) => {
                let permits = answered.permits();
                answered.permits = 0;
                let Answered { core, answer, source, .. } = answered;
                (permits > 0).then(|| {
                    let (reply, granted_after) = answer.replied();
                    let grant = Grant::of(&reply, permits, granted_after);
                    Taken::reserved(core, *source, grant, permits)
                })
            }
            Made::OfDecision(made) => made.taken.take(),
        }
    }

    /// Combines the permits that a call got from two limiters.
    pub(super) fn and(mut self, mut other: Self) -> Self {
        let decision = (*self).clone().and((*other).clone());
        let taken = match (self.take(), other.take()) {
            (Some(taken), Some(other)) => Some(taken.and(other)),
            (one, other) => one.or(other),
        };
        Self::of(decision, taken)
    }

    /// Reports to the observers of the call how it is settled.
    pub(crate) fn observe(&mut self, fate: Fate) {
        let (decision, observation) = ((**self).clone(), Some(Observation(fate)));
        let made = Decided { decision, taken: self.take(), observation };
        self.made = Made::OfDecision(Box::new(made));
    }

    /// Reports that the call used this many of its permits.
    fn report(&mut self, permits: u64, used: u64) {
        if let Made::OfDecision(made) = &mut self.made
            && let Some(observation) = made.observation.take()
        {
            observation.settle(made.decision.settled(permits, used));
        }
    }

    /// Records what a call used in all. Its decision is that of such a call from now on.
    #[cfg(feature = "tower")]
    pub(crate) fn correct(&mut self, used: u64) {
        self.record(used);
        let permits = self.permits();
        self.report(permits, used);
        let decision = (**self).settled(permits, used);
        match &mut self.made {
            Made::OfAnswer(_, known) => *known = OnceBox::with_value(Box::new(decision)),
            Made::OfDecision(made) => made.decision = decision,
        }
    }

    /// Returns which calls release permits to the limiter, or `None` if this one took none.
    pub(crate) fn refund_on(&self) -> Option<RefundOn> {
        let core = match &self.made {
            Made::OfAnswer(answered, _) => &answered.core,
            Made::OfDecision(made) => &made.taken.as_ref()?.core,
        };
        (self.permits() > 0).then(|| core.refund_on())
    }

    /// Returns the permits left without building the decision.
    pub(super) fn left(&self) -> u64 {
        match &self.made {
            Made::OfAnswer(answered, _) => answered.answer.remaining(),
            Made::OfDecision(made) => made.decision.remaining(),
        }
    }

    /// Returns the number of permits that this grant took: 0 if the call asked for none, or nothing was counted.
    ///
    /// Nothing is counted if the limiter is disabled, if shadow mode admits a call that would have been rejected,
    /// or if `on_store_error` is `allow`; the methods below do nothing then. A call that asked for none is
    /// charged for what it used.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// assert_eq!(search.acquire(3).await?.permits(), 3);
    /// assert_eq!(search.acquire(0).await?.permits(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn permits(&self) -> u64 {
        match &self.made {
            Made::OfAnswer(answered, _) => answered.permits().into(),
            Made::OfDecision(made) => made.taken.as_ref().map_or(0, |taken| taken.permits().into()),
        }
    }

    /// Adds to the permits that the call really used. After the first record, dropping the permit
    /// settles it at the sum, without blocking: so a stream that is dropped midway pays for what it
    /// delivered. If the limits were dropped before, the sum is not charged.
    ///
    /// [`settle`](Self::settle) and [`give_back`](Self::give_back) ignore what was recorded.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let bytes = limits.limiter("bytes", Quota::per_minute(1000));
    /// let permit = bytes.acquire(500).await?;
    /// for chunk in [vec![0; 120], vec![0; 80]] {
    ///     permit.record(chunk.len() as u64);
    /// }
    /// drop(permit);
    /// # tokio::task::yield_now().await;
    /// # while bytes.available_permits().await? != 800 {
    /// #     tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    /// # }
    /// assert_eq!(bytes.available_permits().await?, 800);
    /// # Ok(())
    /// # }
    /// ```
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
    /// Returns an error if the store is unavailable or misconfigured, or the limits were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let tokens = limits.limiter("tokens", Quota::per_minute(1000));
    /// let permit = tokens.acquire(500).await?;
    ///
    /// let settled = permit.settle(300).await?;
    /// assert_eq!(settled.returned, 200);
    /// assert_eq!(tokens.available_permits().await?, 700);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn settle(mut self, actual: u64) -> Result<Settlement, StoreError> {
        let Some(taken) = self.take() else { return Ok(Settlement::default()) };
        let (limits, permits) = (taken.core.services()?, taken.permits());
        let kept = limits.clone();
        let settled = limits.finish(async move { taken.settle(&kept, actual).await }).await?;
        self.report(permits.into(), actual);
        Ok(settled)
    }

    /// Gives the permits of this grant back to the limiter, and returns their number: fewer than
    /// were taken if some are free again already.
    ///
    /// Once polled it finishes even if the future is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the store is unavailable or misconfigured, or the limits were dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let orders = limits.limiter("orders", Quota::per_minute(10));
    /// let permit = orders.acquire(2).await?;
    ///
    /// assert_eq!(permit.give_back().await?, 2);
    /// assert_eq!(orders.available_permits().await?, 10);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn give_back(mut self) -> Result<u64, StoreError> {
        let Some(taken) = self.take() else { return Ok(0) };
        let limits = taken.core.services()?;
        let (kept, permits) = (limits.clone(), taken.permits());
        let back = limits.finish(async move { taken.give_back_some(&kept, permits).await }).await?;
        self.report(permits.into(), 0);
        Ok(back)
    }
}

impl Deref for Permit {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        match &self.made {
            Made::OfAnswer(Answered { core, answer, .. }, decision) => {
                decision.get_or_init(|| Box::new(core.decided(&answer.replied().0)))
            }
            Made::OfDecision(made) => &made.decision,
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("permits", &self.permits())
            .field("decision", &**self)
            .finish_non_exhaustive()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !*self.is_recorded.get_mut() {
            return;
        }
        let used = *self.recorded.get_mut();
        if let Some(taken) = self.take() {
            self.report(taken.permits().into(), used);
            if let Ok(limits) = taken.core.services() {
                taken.settle_later(&limits, used);
            }
        }
    }
}
