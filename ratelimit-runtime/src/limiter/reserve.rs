//! Waiting for a bucket: the slot is taken in one call, whichever process asks, and slept for once.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    Core, Patience, ask::Ready, here::counted_here, patience::LOOK_AGAIN, policy::share_of,
};
use crate::{
    Decision, Limits, Reason, Rejection,
    limits::Inner,
    store::{Config, Outcome, Reply, Reservation, Ticket},
};

/// What came of asking for a slot.
enum Asked {
    /// Nobody has to wait.
    Decided(Decision),
    /// What is in force knows no reservations.
    Otherwise,
    Told(Counted, Reservation),
}

/// Where a slot was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    InStore,
    /// Each process for itself, by these numbers.
    PerClient(Config),
    /// In this process while the store is away, by these numbers.
    Locally(Config),
}

impl Core {
    /// Whether a call that has to wait reserves its permits.
    pub(super) fn takes_reservations(&self, limits: &Inner) -> bool {
        let rule = self.rule(limits);
        let Ok(numbers) = &rule.numbers else { return false };
        let whole = !rule.is_joint() && rule.shards.is_none();
        let reserves = whole && self.in_force().unwrap_or(numbers.config).reserves();
        // In shadow mode nobody waits, and what is owed is paid before anything else is taken.
        reserves && !rule.is_shadowed() && self.debt() == 0
    }

    /// Takes permits now, or in advance and waits for them. Nothing when the rule in force turns
    /// out to know no reservations.
    pub(super) async fn take_or_reserve(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u32,
        patience: Patience,
    ) -> Option<Result<Decision, Rejection>> {
        let mut refusal = None;
        // Whoever reserved is counted already and cannot be overtaken. One call for all who come at
        // once is cheaper than one for each, as long as there are permits.
        if patience == Patience::None || !self.is_backed_up() {
            match self.take(limits, permits).await {
                Ok(decision) if !decision.allowed => refusal = Some(decision),
                decided => return Some(decided),
            }
        }
        self.wait_for_slot(limits, permits, patience, refusal).await
    }

    /// Waits, after a refusal or without having asked. Nothing as for
    /// [`take_or_reserve`](Self::take_or_reserve).
    pub(super) async fn wait_for_slot(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u32,
        patience: Patience,
        refusal: Option<Decision>,
    ) -> Option<Result<Decision, Rejection>> {
        let inner = limits.inner();
        let result = match (patience.whole_ms(), refusal) {
            (None, Some(refusal)) => Err(self.refused(Reason::Limited, &refusal)),
            (Some(within_ms), Some(refusal)) if is_beyond(&refusal, within_ms) => {
                Err(self.refused(Reason::WaitTooLong, &refusal))
            }
            (within_ms, refusal) => {
                let room = match self.numbers(inner) {
                    Ok(numbers) => numbers.effective.max_waiters.value,
                    Err(rejection) => return Some(Err(rejection)),
                };
                let Ok(_place) = self.queue.join(permits, room) else {
                    return Some(self.without_a_place(limits, permits, refusal).await);
                };
                let waiting = self.reserve(limits, permits, within_ms.unwrap_or(0));
                return Box::pin(waiting).await.transpose();
            }
        };
        Some(result)
    }

    /// Whether a call that can wait will probably have to.
    fn is_backed_up(&self) -> bool {
        !self.queue.is_empty() || self.denied.knows_any()
    }

    /// A free permit needs no place.
    async fn without_a_place(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u32,
        refusal: Option<Decision>,
    ) -> Result<Decision, Rejection> {
        let decision = match refusal {
            Some(refusal) => refusal,
            None => self.take(limits, permits).await?,
        };
        if decision.allowed {
            Ok(decision)
        } else {
            Err(self.refused(Reason::QueueFull, &decision))
        }
    }

    pub(super) async fn reserve(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u32,
        within_ms: u64,
    ) -> Result<Option<Decision>, Rejection> {
        let inner = limits.inner();
        loop {
            let (counted, told) = match self.ask_for_slot(inner, permits, within_ms).await? {
                Asked::Decided(decision) => return Ok(Some(decision)),
                Asked::Otherwise => return Ok(None),
                Asked::Told(counted, told) => (counted, told),
            };
            let degraded = matches!(counted, Counted::Locally(_));
            if told.reply.outcome == Outcome::Granted && told.wait_ms == 0 {
                return self.settle(&told.reply, permits, degraded).map(Some);
            }
            if told.reply.outcome == Outcome::Granted {
                let slot = Slot { core: self, limits, counted, permits, ticket: Some(told.ticket) };
                return slot.sleep(told, degraded).await.map(Some);
            }
            let refusal = self.settle(&told.reply, permits, degraded)?;
            if within_ms < u64::MAX {
                return Err(self.refused(Reason::WaitTooLong, &refusal));
            }
            // It is further ahead than anybody can reserve.
            inner.clock.sleep(LOOK_AGAIN).await;
        }
    }

    async fn ask_for_slot(
        &self,
        limits: &Inner,
        permits: u32,
        within_ms: u64,
    ) -> Result<Asked, Rejection> {
        let rule = self.rule(limits);
        let numbers = match self.ready(limits, &rule, permits)? {
            Ready::Decided(decision) => return Ok(Asked::Decided(decision)),
            Ready::Ask(numbers) => numbers,
        };
        let request = self.request(limits, &rule, numbers).permits(permits);
        let reserve_here = |config| {
            let config = counted_here(config);
            let told = limits.per_client.reserve_counted(&self.keys, config, permits, within_ms);
            or_otherwise(Counted::PerClient(config), told)
        };
        if self.is_counted_here(numbers)
            && let Some(decided) = self.count_here(limits, &rule, &request).await
        {
            let decision = decided?;
            return Ok(match self.in_force() {
                Some(config) if !decision.allowed => reserve_here(config),
                _ => Asked::Decided(decision),
            });
        }
        let asked = self.denied.asking();
        let told = match limits.store.reserve(&request, within_ms).await {
            Ok(told) => told,
            Err(error) => {
                let decision = self.without_store(limits, numbers, &request, true, &error)?;
                if decision.allowed {
                    return Ok(Asked::Decided(decision));
                }
                let config = share_of(limits, self.in_force().unwrap_or(request.config));
                let told = limits.local.reserve_counted(&self.keys, config, permits, within_ms);
                return Ok(or_otherwise(Counted::Locally(config), told));
            }
        };
        self.observe(limits, &rule, &told.reply);
        if limits.store.is_shared() {
            self.denied.note(asked, &[permits], &[told.reply]);
        }
        match told.reply.outcome {
            Outcome::PerClient => Ok(reserve_here(told.reply.config)),
            Outcome::Unknown => Err(self.unknown()),
            _ => Ok(or_otherwise(Counted::InStore, told)),
        }
    }
}

fn or_otherwise(counted: Counted, told: Reservation) -> Asked {
    if told.reply.config.reserves() { Asked::Told(counted, told) } else { Asked::Otherwise }
}

fn is_beyond(refusal: &Decision, within_ms: u64) -> bool {
    refusal.retry_after.is_some_and(|wait| wait > Duration::from_millis(within_ms))
}

/// A slot that was reserved: given back when it is dropped before its time.
struct Slot<'a> {
    core: &'a Arc<Core>,
    limits: &'a Limits,
    counted: Counted,
    permits: u32,
    /// None when its time has come.
    ticket: Option<Ticket>,
}

impl Slot<'_> {
    /// Sleeps until its time. Whatever becomes of the numbers meanwhile, it goes then; in shadow mode
    /// at once.
    async fn sleep(mut self, told: Reservation, degraded: bool) -> Result<Decision, Rejection> {
        let (core, limits, Reservation { reply, wait_ms, .. }) =
            (self.core, self.limits.inner(), told);
        let mut time = pin!(limits.clock.sleep(Duration::from_millis(wait_ms)));
        loop {
            let generation = limits.generation();
            if core.is_shadowed(limits) {
                let refused = Reply { outcome: Outcome::Refused, retry_after_ms: wait_ms, ..reply };
                let refusal = core.settle(&refused, self.permits, degraded)?;
                core.would_refuse(limits, core.refused(Reason::Limited, &refusal));
                return core.in_shadow(limits, Ok(refusal));
            }
            tokio::select! {
                biased;
                () = &mut time => break,
                () = limits.renewed(generation) => {}
            }
        }
        self.ticket = None;
        core.family.tally.waited.fetch_add(1, Ordering::Relaxed);
        let (now_ms, passed) = (reply.now_ms + wait_ms, reply.reset_after_ms - wait_ms);
        let reply = Reply { now_ms, reset_after_ms: passed, ..reply };
        core.settle(&reply, self.permits, degraded)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let (keys, permits, limits) = (&self.core.keys, self.permits, self.limits.inner());
        match self.counted {
            Counted::PerClient(config) => {
                limits.per_client.give_up_counted(keys, config, permits, ticket);
            }
            Counted::Locally(config) => {
                limits.local.give_up_counted(keys, config, permits, ticket);
            }
            Counted::InStore => {
                give_up(Arc::clone(self.core), self.limits.clone(), permits, ticket);
            }
        }
    }
}

/// Tells the store.
fn give_up(core: Arc<Core>, limits: Limits, permits: u32, ticket: Ticket) {
    let own = limits.clone();
    own.inner().finish(async move {
        let given_up = limits.inner().store.give_up(&core.keys, permits, ticket).await;
        if given_up.unwrap_or(false) {
            core.changed();
        }
    });
}
