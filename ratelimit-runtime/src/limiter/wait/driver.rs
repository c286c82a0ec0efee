//! Carries out the next step of a queue.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use tokio::runtime::{Handle, Id};

use super::{
    Blocked, Core, Delay, Due, LOOK_AGAIN, Place, Slot, Ticket, Times, blocked,
    chair::{Chair, Received},
    decide, lag,
    line::{Leaving, Step},
    look_at,
};
use crate::{
    Reason,
    clock::{self, whole_ms},
    engine::{Runtime, Unfinished},
    limiter::{
        decide::{Granted, Refusals, Why},
        services::Services,
        taken::Taken,
    },
    store::Config,
};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts a driver for callers in this runtime, unless there is one.
pub(super) fn ensure(core: &Arc<Core>, limits: &Arc<Services>) {
    let here = runtime_here(limits).map(Runtime::from);
    start(core, limits, &here.unwrap_or_else(|| limits.engine.runtime()));
}

/// Starts a driver in this runtime, unless there is one.
fn start(core: &Arc<Core>, limits: &Arc<Services>, runtime: &Runtime) {
    let home = runtime.id();
    let mut drivers = core.queue.waiting().drivers();
    if !drivers.contains(&home) {
        drivers.push(home);
        drop(drivers);
        let (core, limits, unfinished) = (Arc::clone(core), limits.clone(), limits.engine.begin());
        let known = core.known_of_all(&limits).unwrap_or_default();
        let driver = Driver {
            core,
            limits,
            home,
            known,
            working: false,
            _unfinished: unfinished,
            _runtime: runtime.clone(),
        };
        runtime.spawn(driver.run());
    }
}

/// Panics in a runtime without timers, so that a caller does instead of the driver that it would wait for.
pub(super) fn check_timers(limits: &Services) {
    if runtime_here(limits).is_some() {
        drop(tokio::time::sleep(Duration::ZERO));
    }
}

/// Returns this runtime, if it drives the queues of its callers. If several processes share the store, the engine does,
/// so that no caller's runtime drives what others wait for.
fn runtime_here(limits: &Services) -> Option<Handle> {
    Handle::try_current().ok().filter(|_| !limits.store.is_shared())
}

/// The driver of a queue. If its runtime ends, another driver continues.
struct Driver {
    core: Arc<Core>,
    limits: Arc<Services>,
    home: Id,
    /// The numbers by which the callers were last compared.
    known: Vec<Config>,
    /// Whether this driver is the one that queries the store.
    working: bool,
    _unfinished: Unfinished,
    /// Where it runs; keeps the runtime of an engine that has ended.
    _runtime: Runtime,
}

impl Driver {
    async fn run(mut self) {
        let mut work = None::<Work>;
        loop {
            let (core, limits) = (Arc::clone(&self.core), self.limits.clone());
            let waiting = core.queue.waiting();
            let generation = limits.generation();
            let mut changed = pin!(waiting.changed.notified());
            changed.as_mut().enable();
            let wake = match self.step(generation) {
                Step::Ask => {
                    work = Some(Box::pin(ask(Arc::clone(&core), limits.clone())));
                    continue;
                }
                Step::Reserve(costs, until) => {
                    work = Some(Box::pin(reserve(Arc::clone(&core), limits.clone(), costs, until)));
                    continue;
                }
                Step::GiveUp(slots) => {
                    work = Some(Box::pin(give_up(Arc::clone(&core), limits.clone(), slots)));
                    continue;
                }
                Step::Look(permits) => {
                    work = Some(Box::pin(look(Arc::clone(&core), limits.clone(), permits)));
                    continue;
                }
                Step::End if work.is_none() && self.ends() => return,
                Step::End => u64::MAX,
                Step::Sleep(wake) => wake,
            };
            let sleep = limits.clock.sleep_until(wake);
            let sleep = pin!(async {
                if wake < u64::MAX { sleep.await } else { std::future::pending().await }
            });
            let renewed = pin!(limits.renewed(generation));
            let worked = poll_fn(|context| match &mut work {
                Some(work) => work.as_mut().poll(context),
                None => Poll::Pending,
            });
            tokio::select! {
                biased;
                () = worked => {
                    (work, self.working) = (None, false);
                    self.compare();
                }
                () = changed => {}
                () = renewed => {}
                () = sleep => {}
            }
        }
    }

    /// Returns the next step, and answers the callers whose wait is over.
    fn step(&mut self, generation: u64) -> Step<Ticket> {
        let (core, limits) = (&self.core, &self.limits);
        let (now, pace) = (limits.clock.now_ms(), core.pace(limits));
        let mut leaving = Vec::new();
        let is_doubtful = core.queue.waiting().line().is_doubtful();
        let known = || core.known_of_all(limits).unwrap_or_default();
        let behind = is_doubtful.then(|| core.least_behind(limits, known()));
        let least_ms = |ahead, permits| behind.as_ref().and_then(|least| least(ahead, permits));
        let step =
            core.queue.change(|line| line.step(now, pace, generation, least_ms, &mut leaving));
        self.working |= !matches!(step, Step::Sleep(_) | Step::End);
        for one in leaving {
            match one {
                Leaving::Admitted(place, slot) => admit(core, limits, &place.seat, slot),
                Leaving::TooLate(place, ms) => {
                    let position = place.seat.position(core);
                    let rejection = core.not_before(limits, Reason::WaitTooLong, ms.max(1));
                    give_back(limits, place.seat.reject((position, rejection)));
                }
            }
        }
        step
    }

    /// Lets the queue look again for callers that cannot be in time, if the store replied by other numbers.
    fn compare(&mut self) {
        let known = self.core.known_of_all(&self.limits).unwrap_or_default();
        if std::mem::replace(&mut self.known, known.clone()) != known {
            self.core.queue.waiting().line().doubt();
        }
    }

    /// Returns whether nothing is left to drive; a caller that comes later starts another driver.
    fn ends(&self) -> bool {
        let waiting = self.core.queue.waiting();
        let mut drivers = waiting.drivers();
        let ends = waiting.line().is_idle();
        if ends {
            drivers.retain(|home| *home != self.home);
        }
        ends
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let waiting = self.core.queue.waiting();
        let mut drivers = waiting.drivers();
        drivers.retain(|home| *home != self.home);
        let is_last = drivers.is_empty();
        drop(drivers);
        if self.working {
            waiting.line().answered(Due::default());
        }
        let is_idle = waiting.line().is_idle();
        if self.limits.is_shut_down() {
            reject_all(&self.core, &self.limits);
        } else if is_last && !is_idle {
            // Its runtime ends, and perhaps all callers with it: their reservations are still to be canceled.
            let engine = self.limits.engine.runtime();
            if engine.id() != self.home {
                start(&self.core, &self.limits, &engine);
            }
        }
        waiting.changed.notify_waiters();
    }
}

/// Rejects all callers of a queue that no driver continues: the engine has ended while its server did not reply.
fn reject_all(core: &Arc<Core>, limits: &Arc<Services>) {
    let now = limits.clock.now_ms();
    let head = || {
        core.queue.change(|line| {
            let number = line.head()?.number;
            line.leave(number, now)
        })
    };
    while let Some(place) = head() {
        give_back(limits, place.seat.reject((place.seat.position(core), core.ended())));
    }
}

/// Gives a reservation to its caller.
fn admit(core: &Arc<Core>, limits: &Arc<Services>, chair: &Arc<Chair>, slot: Slot<Ticket>) {
    let Ticket { source, grant, reply } = slot.ticket.clone();
    let decision = core.decision(&reply.into(), false);
    let taken = Taken::reserved(core, source, grant, slot.permits);
    let granted = Granted { decision, taken, again_ms: 0, overruled: None };
    let position = chair.position(core);
    give_back(limits, chair.receive(limits, position, vec![granted], Some(slot)));
}

/// Gives back what no caller will use: reservations to the next callers, other permits to their limiters.
pub(super) fn give_back(limits: &Arc<Services>, received: Vec<Received>) {
    let mut taken = Vec::new();
    for Received { granted, slot, .. } in received {
        let Some(slot) = slot else {
            taken.push(granted.taken);
            continue;
        };
        let core = &granted.taken.core;
        core.queue.change(|line| line.put_back(slot));
        // The driver ends once nothing is reserved, and nothing starts the engine after a shutdown.
        if !limits.is_shut_down() {
            ensure(core, limits);
        }
        core.queue.waiting().changed.notify_waiters();
    }
    Taken::give_back_later(limits, taken);
}

/// Queries the store for the caller at the head.
async fn ask(core: Arc<Core>, limits: Arc<Services>) {
    let asked = |head: &Place<Arc<Chair>>| (head.number, Arc::clone(&head.seat));
    let head = core.queue.change(|line| line.ask().map(asked));
    let Some((number, chair)) = head else {
        core.queue.change(|line| line.answered(Due::default()));
        return;
    };
    let (first, claims) = chair.asks_for(&core);
    let begun = chair.begun.again(&limits, claims);
    let (since, late) = (chair.begun.at, core.queue.waiting().line().lag());
    let result = decide(&limits, claims).await;
    let Times { now, lag, .. } = Times::now(&limits, begun.at);
    let degraded = is_degraded(&result);
    if let Some(degraded) = degraded {
        core.queue.waiting().polling.store(degraded, Ordering::Release);
    }
    let times = Times { started: since, now, lag: late + lag };
    let overtakes = |position: usize| chair.overtakes(&core, first + position);
    let (outcome, again) = match result {
        Ok(granted) => {
            let again = granted.first().filter(|_| granted.len() == 1).map(|got| got.again_ms);
            (Ok(granted), now.saturating_add(again.unwrap_or(0)))
        }
        Err(refusals) => match blocked(claims, refusals, times, overtakes) {
            Blocked::By(position, rejection) => (Err((first + position, rejection)), now),
            Blocked::For(Delay { position, at, degraded, .. })
                if Arc::ptr_eq(&claims[position].core, &core)
                    && (degraded || !chair.is_overtaken(begun.at, at)) =>
            {
                let due = Due::of_reply(&limits, at, lag, degraded);
                core.queue.change(|line| line.answered(due));
                return;
            }
            Blocked::For(delay) => {
                // Another limiter delays the call, or other processes are ahead of it at this one: those that wait for
                // this limiter alone need not wait for it.
                core.queue.change(|line| {
                    line.leave(number, now);
                    line.answered(Due::at(now, 0));
                });
                let delay = Some(Delay { lag, ..delay });
                give_back(&limits, chair.move_on(&limits, delay, &begun));
                return;
            }
        },
    };
    let again = Due::of_reply(&limits, again, lag, degraded.unwrap_or(false));
    core.queue.change(|line| line.served(number, now, again));
    let unused = match outcome {
        Ok(granted) => chair.receive(&limits, first, granted, None),
        Err(rejected) => chair.reject(rejected),
    };
    give_back(&limits, unused);
}

/// Returns whether the policy of an unavailable store decided; `None` if that is unknown. A rejection counts too:
/// as long as other processes reserve permits, none is free for a caller without a reservation.
fn is_degraded(result: &Result<Vec<Granted>, Refusals>) -> Option<bool> {
    match result {
        Ok(granted) => Some(granted.iter().any(|got| got.decision.degraded)),
        Err(refusals) => {
            let refused = refusals.iter().filter_map(|(_, why)| match why {
                Why::NotNow(refusal) => Some(refusal.degraded),
                Why::Rejected(_) => None,
            });
            refused.reduce(|one, other| one || other)
        }
    }
}

/// Reserves permits for the callers at the head.
async fn reserve(core: Arc<Core>, limits: Arc<Services>, costs: Vec<u32>, until: Option<u64>) {
    let (asked_at, sent) = (limits.clock.now_ms(), clock::instant());
    let tick = lag(&limits, asked_at, asked_at);
    let within_ms =
        until.map_or(u64::MAX, |until| until.saturating_add(tick).saturating_sub(asked_at));
    let reserved = core.reserve(&limits, &costs, within_ms).await;
    let now = limits.clock.now_ms();
    let waiting = core.queue.waiting();
    let Some(reserved) = reserved else {
        // The policy decides, or the active configuration takes no reservations.
        waiting.polling.store(true, Ordering::Release);
        core.queue.change(|line| line.answered(Due::at(now, 0)));
        return;
    };
    let lag = lag(&limits, asked_at, now);
    waiting.note_round_trip(u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX));
    let again = now.saturating_add(reserved.refused_for_ms.unwrap_or(0));
    let again = Due::at(again, lag).asked_by(now + whole_ms(LOOK_AGAIN));
    core.queue.change(|line| {
        for (wait_ms, permits, ticket) in reserved.slots {
            line.put(Slot { at: now + wait_ms, lag, permits, ticket });
        }
        line.answered(again);
        line.look_at(look_at(&limits, line.head_at(), false));
    });
}

/// Checks whether a request of this cost could be granted before the reservations.
async fn look(core: Arc<Core>, limits: Arc<Services>, permits: u32) {
    let rule = core.rule(&limits);
    if core.is_counted_here(&rule) {
        for part in core.parts(&rule) {
            part.look_in_turn(&limits).await;
        }
    }
    let free_at = core.free_at(&limits, permits).await;
    core.queue.change(|line| line.looked(free_at, look_at(&limits, line.head_at(), false)));
}

impl Core {
    /// Returns when a new request of this cost could be granted, in milliseconds by the clock of the
    /// limits; `None` if that is unknown.
    async fn free_at(self: &Arc<Self>, limits: &Arc<Services>, permits: u32) -> Option<u64> {
        let after = match self.peek_in_turn(limits, permits.into()).await {
            Ok(decision) => (!decision.degraded).then_some(Duration::ZERO),
            Err(rejection) => {
                rejection.decision().filter(|decision| !decision.degraded)?.retry_after
            }
        };
        Some(limits.clock.now_ms().saturating_add(whole_ms(after?)))
    }
}

/// Cancels reservations in this order. The store accepts a reservation back if no other was made
/// after it; the remaining ones are used as they are, unless the permits are free earlier: a reset
/// or a deletion has removed the reservations too.
async fn give_up(core: Arc<Core>, limits: Arc<Services>, slots: Vec<Slot<Ticket>>) {
    let mut slots = slots.into_iter();
    let mut kept = Vec::new();
    for slot in slots.by_ref() {
        let Ticket { source, grant, .. } = slot.ticket;
        let taken = Taken::reserved(&core, source, grant, slot.permits);
        let back = taken.give_back_some(&limits, slot.permits).await;
        if back.is_ok_and(|back| back == 0) {
            kept.push(slot);
            break;
        }
    }
    kept.extend(slots);
    if core.pace(&limits).is_none() {
        kept.clear();
    }
    let cost = core.queue.waiting().line().head().map(|head| head.permits);
    if let Some(permits) = cost.filter(|_| !kept.is_empty()) {
        let free_at = core.free_at(&limits, permits).await;
        kept.retain(|slot| free_at.is_none_or(|free_at| slot.at <= free_at));
    }
    core.queue.change(|line| {
        line.keep(kept);
        line.answered(Due::default());
    });
}
