//! How long a call waits for its permit, and the waiting itself.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ratelimit_spec::Wait;

use super::{Core, denied::Manner};
use crate::{
    Answer, Limits, Reason, Rejection,
    clock::whole_ms,
    limits::Inner,
    store::{Outcome, Reply},
    waiting::{Full, Place},
};

/// Between looks at a limiter that can refuse nobody and cannot admit this call yet.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    None,
    UpTo(Duration),
    Forever,
}

impl Patience {
    /// The last millisecond of a call that started then.
    pub(super) fn until(self, started: u64) -> Until {
        match self {
            Self::Forever => None,
            Self::UpTo(limit) => Some(started.saturating_add(whole_ms(limit))),
            Self::None => Some(started),
        }
    }
}

impl From<Wait> for Patience {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::None => Self::None,
            Wait::UpTo(limit) => Self::UpTo(limit),
            Wait::Forever => Self::Forever,
        }
    }
}

impl Patience {
    /// For a call that may wait, the milliseconds for which it may.
    pub(super) fn whole_ms(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::UpTo(limit) => Some(whole_ms(limit)),
            Self::Forever => Some(u64::MAX),
        }
    }
}

/// The last millisecond, by the limits' clock, that a call may wait for; `None` is for ever.
pub(super) type Until = Option<u64>;

/// What a decision knows of; whatever comes later may change it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    stirs: u64,
    generation: u64,
}

impl Core {
    /// Takes permits, waiting for them in turn. Returns only decisions that allow.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u32,
        patience: Patience,
    ) -> Result<Answer, Rejection> {
        if let Some(result) = self.acquire_at_once(limits.inner(), permits, || patience) {
            return result.and_then(|reply| self.settle(&reply, permits, false));
        }
        let result = self.in_turn(limits, permits, patience).await;
        self.tally(result.is_ok());
        result
    }

    /// The whole of a call that needs neither the store nor a wait.
    pub(crate) fn acquire_at_once(
        &self,
        limits: &Inner,
        permits: u32,
        patience: impl FnOnce() -> Patience,
    ) -> Option<Result<Reply, Rejection>> {
        // Nobody overtakes a caller that waits in this process already, or what is owed.
        if !self.queue.is_idle() {
            return None;
        }
        let reply = self.at_once(limits, permits, Manner::Tries)?;
        let result = match reply.outcome {
            Outcome::Granted => Ok(reply),
            // The rule in use is the one that decided this; no reload is behind it.
            _ if self.shadowed.load(Ordering::Acquire) => return None,
            Outcome::Refused if patience() != Patience::None => return None,
            _ => Err(self.refusal(&reply, permits)),
        };
        self.tally(result.is_ok());
        Some(result)
    }

    /// Kept out of the way of a call that is granted at once.
    #[inline(never)]
    fn refusal(&self, reply: &Reply, permits: u32) -> Rejection {
        match self.settle(reply, permits, false) {
            Ok(refusal) => self.refused(Reason::Limited, &refusal),
            Err(rejection) => rejection,
        }
    }

    pub(super) fn tally(&self, allowed: bool) {
        let tally = &self.family.tally;
        let counter = if allowed { &tally.allowed } else { &tally.rejected };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    async fn in_turn(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u32,
        patience: Patience,
    ) -> Result<Answer, Rejection> {
        if self.takes_reservations(limits.inner())
            && let Some(result) = self.take_or_reserve(limits, permits, patience).await
        {
            return result;
        }
        let started = limits.inner().clock.now_ms();
        let (mut refusal, seen) = (None, self.seen(limits.inner()));
        // Those who wait since before the limiter was in shadow mode hold nobody up.
        if self.queue.is_empty() || self.is_shadowed(limits.inner()) {
            let decision = self.take(limits, permits).await?;
            if decision.allowed {
                return Ok(decision);
            }
            // What is in force may be known only now.
            if self.takes_reservations(limits.inner())
                && let Some(result) =
                    self.wait_for_slot(limits, permits, patience, Some(decision.clone())).await
            {
                return result;
            }
            refusal = Some((decision, seen));
        }
        if patience == Patience::None {
            return Err(self.turned_away(Reason::Limited, &refusal, started));
        }
        let until = patience.until(started);
        let room = self.numbers(limits.inner())?.effective.max_waiters.value;
        let place = self
            .queue
            .join(permits, room)
            .map_err(|Full| self.turned_away(Reason::QueueFull, &refusal, started))?;
        let waiting = self.wait_in(limits, &place, permits, until, refusal);
        // Few calls wait, and those that do not need no room for it.
        Box::pin(waiting).await
    }

    async fn wait_in(
        self: &Arc<Self>,
        limits: &Limits,
        place: &Place<'_>,
        permits: u32,
        until: Until,
        refusal: Option<(Answer, Seen)>,
    ) -> Result<Answer, Rejection> {
        let (asked, limits) = (limits, limits.inner());
        let now = limits.clock.now_ms();
        let known = self.known_of_all(limits)?;
        let earliest =
            known.into_iter().map(|config| place.earliest(config, now)).max().unwrap_or(0);
        if until.is_some_and(|until| now + earliest > until) {
            return Err(self.not_before(Reason::WaitTooLong, earliest));
        }
        let (mut turn, mut decision) = match place.turn_now() {
            // Nobody came in between, so the refusal still tells when to ask again.
            Some(turn) => (turn, refusal),
            None => (self.turn(limits, place, until).await?, None),
        };
        loop {
            let (refusal, seen) = match decision.take() {
                Some(refusal) => refusal,
                None => {
                    let seen = self.seen(limits);
                    let decision = self.take(asked, permits).await?;
                    if decision.allowed {
                        drop(turn);
                        self.family.tally.waited.fetch_add(1, Ordering::Relaxed);
                        return Ok(decision);
                    }
                    (decision, seen)
                }
            };
            // What was owed is paid, or a bucket counts since it waits: whoever comes now takes a slot.
            if self.takes_reservations(limits) {
                drop(turn);
                let left =
                    until.map_or(u64::MAX, |until| until.saturating_sub(limits.clock.now_ms()));
                if let Some(decision) = self.reserve(asked, permits, left).await? {
                    return Ok(decision);
                }
                turn = self.turn(limits, place, until).await?;
            }
            let wait = refusal.retry_after.unwrap_or(refusal.quota.per());
            let at = limits.clock.now_ms() + whole_ms(wait);
            if until.is_some_and(|until| at > until) {
                return Err(self.refused(Reason::WaitTooLong, &refusal));
            }
            place.expect_at(at);
            self.nap(limits, place, whole_ms(wait), seen).await;
        }
    }

    /// Sleeps for so many milliseconds at the most: permits that are given back, or new numbers, may
    /// come sooner.
    pub(super) async fn nap(&self, limits: &Inner, place: &Place<'_>, wait_ms: u64, seen: Seen) {
        let wait = Duration::from_millis(wait_ms);
        tokio::select! {
            () = limits.clock.sleep(wait.min(limits.store.look_again_after(wait))) => {}
            () = place.stirred(seen.stirs) => {}
            () = limits.renewed(seen.generation) => {}
        }
    }

    /// To be read before the store is asked.
    pub(super) fn seen(&self, limits: &Inner) -> Seen {
        Seen { stirs: self.queue.stirs(), generation: limits.generation() }
    }

    /// Waits for this caller to be the head.
    pub(super) async fn turn<'a>(
        &self,
        limits: &Inner,
        place: &Place<'a>,
        until: Until,
    ) -> Result<tokio::sync::MutexGuard<'a, ()>, Rejection> {
        let Some(until) = until else {
            return Ok(place.turn().await);
        };
        let left = until.saturating_sub(limits.clock.now_ms());
        tokio::select! {
            biased;
            turn = place.turn() => Ok(turn),
            () = limits.clock.sleep(Duration::from_millis(left)) => {
                let head_in = self.queue.head_in(limits.clock.now_ms());
                Err(self.not_before(Reason::WaitTooLong, head_in.max(1)))
            }
        }
    }

    /// Takes permits for a function that cannot carry a rejection: it waits for as long as it
    /// takes, and what no wait can cure is settled by the local policy. Nothing when it goes ahead
    /// without a decision.
    pub(crate) async fn admit(self: &Arc<Self>, limits: &Limits, permits: u32) -> Option<Answer> {
        loop {
            let rejection = match self.acquire(limits, permits, Patience::Forever).await {
                Ok(decision) => return Some(decision),
                Err(rejection) => rejection,
            };
            let limits = limits.inner();
            match rejection.reason() {
                Reason::StoreMisconfigured => {
                    self.complain(limits, &rejection);
                    let numbers = self.numbers(limits).ok()?;
                    let decision = self.decide_locally(limits, permits, numbers.config, true);
                    if let Some(decision) = decision.filter(|decision| decision.allowed) {
                        return Some(decision);
                    }
                    if numbers.effective.shadow.value {
                        self.would_refuse(limits, || self.rejection(Reason::Limited));
                        return None;
                    }
                }
                Reason::NotConfigured => {
                    self.complain(limits, &rejection);
                    return None;
                }
                _ => {}
            }
            limits.clock.sleep(LOOK_AGAIN).await;
        }
    }

    /// Tells a caller that is not to wait, or has no place to, when to come again: when the permits
    /// are free, or else when the first of those who wait goes.
    fn turned_away(&self, reason: Reason, refusal: &Option<(Answer, Seen)>, now: u64) -> Rejection {
        match refusal {
            Some((refusal, _)) => self.refused(reason, refusal),
            None => self.not_before(reason, self.queue.head_in(now).max(1)),
        }
    }

    pub(super) fn refused(&self, reason: Reason, refusal: &Answer) -> Rejection {
        self.rejection(reason)
            .retry_after_some(refusal.retry_after)
            .with_quota(refusal.quota)
            .with_violated(refusal.violated.clone())
            .with_decision(refusal.decision(&self.family.key))
    }

    pub(super) fn not_before(&self, reason: Reason, ms: u64) -> Rejection {
        let config = self.in_force();
        let rejection = self.rejection(reason).retry_after_some(Some(Duration::from_millis(ms)));
        match config {
            Some(config) => rejection.with_quota(config.quota()),
            None => rejection,
        }
    }
}
