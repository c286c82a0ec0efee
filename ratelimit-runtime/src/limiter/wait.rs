//! Waiting for permits: one first-come queue per limiter and process, and one loop for all algorithms.
//!
//! Only the queue queries the store, never its callers: a driver carries out the decisions of the
//! [`Line`], as a task of the engine if the store is shared, and of the callers' own runtimes if it
//! is embedded. A bucket hands out reservations, which belong to the queue, not to the callers: if
//! a waiting call is dropped, its reservation passes to the next caller.

mod begun;
mod chair;
mod driver;
mod due;
mod forecast;
mod line;
mod pace;
mod reserve;
mod rest;
mod turn;
mod waited;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use ratelimit_spec::Wait;
use tokio::{runtime::Id, sync::Notify};

use self::{
    begun::Begun,
    chair::Chair,
    due::{Due, look_at},
    line::{Line, Part, Place, Slot},
    turn::Turn,
    waited::Waited,
};
use super::{
    Core,
    decide::{Got, Granted, Ready, Refusals, Why, decide, decide_one},
    permit::Permit,
    plan::Claim,
    queue::Queue,
    services::Services,
    taken::{Held, Source},
};
use crate::{
    Reason, Rejection, StoreError,
    clock::whole_ms,
    store::{Grant, Reply},
};

/// The pause of a call that can be neither admitted nor rejected yet.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The permits that a call gets from all its claims, or the claim that rejects it.
pub(crate) type Outcome = Result<Vec<Granted>, (usize, Rejection)>;

/// The callers of a queue.
#[derive(Debug, Default)]
struct Waiting {
    line: Mutex<Line<Arc<Chair>, Ticket>>,
    /// Wakes the drivers.
    changed: Notify,
    /// The runtimes in which drivers run.
    drivers: Mutex<Vec<Id>>,
    /// The mean duration of a request for reservations, in microseconds.
    round_trip_us: AtomicU64,
    /// Whether the store's policy decides, so that no reservations are made.
    polling: AtomicBool,
}

/// Identifies a reservation, with the reply for its caller.
#[derive(Clone, Debug)]
struct Ticket {
    source: Source,
    grant: Grant,
    reply: Reply,
}

impl Part for Ticket {
    fn split_off(&mut self, permits: u32, later_ms: u64) -> Self {
        let Self { source, grant, reply } = self.clone();
        let now_ms = reply.now_ms.saturating_add(later_ms);
        let reset_after_ms = reply.reset_after_ms.saturating_sub(later_ms);
        let more_after_ms = reply.more_after_ms.saturating_sub(later_ms);
        self.grant = grant.before(permits.into());
        let grant = Grant { before_ms: reply.now_ms, ..grant };
        let reply = Reply { now_ms, reset_after_ms, more_after_ms, ..reply };
        Self { source, grant, reply }
    }
}

impl Queue {
    /// Wakes the queue, because permits may have become free early.
    pub(crate) fn stir(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if let Some(waiting) = self.known() {
            waiting.line().change();
            waiting.changed.notify_waiters();
        }
    }

    /// Records that no permits are free until then, except those that are reserved.
    pub(super) fn blocked_until(&self, at: u64) {
        if let Some(waiting) = self.known() {
            waiting.line().blocked_until(at);
            waiting.changed.notify_waiters();
        }
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire).into()
    }

    fn waiting(&self) -> &Waiting {
        let waiting = self.waiting.get_or_init(|| Box::new(Box::<Waiting>::default()));
        waiting.downcast_ref().expect("no other type is put there")
    }

    fn known(&self) -> Option<&Waiting> {
        self.waiting.get()?.downcast_ref()
    }

    /// Returns the milliseconds until the head expects its permits, at least one.
    fn head_in(&self, now: u64) -> u64 {
        let at = self.known().map_or(0, |waiting| waiting.line().head_at());
        at.saturating_sub(now).max(1)
    }

    /// Changes the line, and updates what is visible without the lock.
    fn change<T>(&self, change: impl FnOnce(&mut Line<Arc<Chair>, Ticket>) -> T) -> T {
        let mut line = self.waiting().line();
        let result = change(&mut line);
        self.busy.store(line.len() > 0, Ordering::Release);
        result
    }
}

impl Waiting {
    fn drivers(&self) -> MutexGuard<'_, Vec<Id>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self) -> MutexGuard<'_, Line<Arc<Chair>, Ticket>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the last millisecond in which a call that started then may be admitted; `None` if it never ends.
fn until(wait: Wait, started: u64) -> Option<u64> {
    match wait {
        Wait::Forever => None,
        Wait::UpTo(limit) => Some(started.saturating_add(whole_ms(limit))),
        Wait::None => Some(started),
    }
}

/// Takes the permits of all claims, waiting in line for them. For a claim that cannot reject the
/// call, the local policy decides if waiting cannot resolve the error.
pub(crate) async fn acquire(
    limits: &Arc<Services>,
    claims: &[Claim],
) -> Result<Got<Permit>, (usize, Rejection)> {
    let limiters = claims.iter().map(|claim| claim.core.family.measured_as());
    let permits = claims.iter().map(|claim| claim.permits).fold(0, u64::saturating_add);
    let span = limits.spans.begin(limiters, permits);
    match acquire_claims(limits, claims).await {
        Ok(Got::One(permit)) => {
            span.admitted(Some(permit.left()), false);
            Ok(Got::One(permit))
        }
        Ok(Got::All(granted)) => {
            let decisions = || granted.iter().flatten().map(|granted| &granted.decision);
            let remaining = decisions().map(|decision| decision.remaining).min();
            span.admitted(remaining, decisions().any(|decision| decision.degraded));
            let permit = |got: Granted| Permit::new(got.decision, got.taken);
            Ok(Got::All(granted.into_iter().map(|granted| granted.map(permit)).collect()))
        }
        Err((position, rejection)) => {
            span.rejected(rejection.reason());
            Err((position, rejection))
        }
    }
}

async fn acquire_claims(
    limits: &Arc<Services>,
    claims: &[Claim],
) -> Result<Got<Granted>, (usize, Rejection)> {
    let begun = Begun::now(limits, claims);
    let usual = match claims {
        [claim] => decide_one(limits, claim),
        _ => None,
    };
    let refusals = match usual {
        Some(deciding) => match deciding.await {
            Ok(got) => return Ok(got),
            Err(refusals) => Some(refusals),
        },
        None => None,
    };
    // Few calls get here, and the others need no room for its state.
    Box::pin(acquire_all(limits, claims, begun, refusals)).await.map(Got::All)
}

/// Takes the permits of all claims, some of which may have rejected the call already.
async fn acquire_all(
    limits: &Arc<Services>,
    claims: &[Claim],
    mut begun: Begun,
    mut refusals: Option<Refusals>,
) -> Result<Vec<Option<Granted>>, (usize, Rejection)> {
    let mut all: Vec<Option<Granted>> = claims.iter().map(|_| None).collect();
    let mut held = Held::new(limits);
    let mut open: Vec<usize> = (0..claims.len()).collect();
    let mut waited = None;
    while !open.is_empty() {
        let asked = open.iter().map(|n| claims[*n].clone()).collect();
        let result = attempt(limits, asked, &begun, refusals.take(), &mut waited).await;
        let (n, rejection) = match result {
            Ok(granted) => {
                for (n, got) in open.into_iter().zip(granted) {
                    claims[n].core.count_if_degraded(&got.decision);
                    all[n] = Some(got);
                }
                break;
            }
            Err((position, rejection)) => (open[position], rejection),
        };
        if claims[n].fallible {
            if rejection.is_degraded() && !limits.is_shut_down() {
                claims[n].core.count_degraded();
            }
            let rejection = claims[n].core.penalize(limits, rejection).await;
            claims[n].core.count_rejected(limits, &rejection);
            return Err((n, rejection));
        }
        match claims[n].settle(limits, &rejection) {
            Some(settled) => {
                settled.iter().for_each(|got| held.note(&got.taken));
                all[n] = settled;
                open.retain(|other| *other != n);
            }
            None => {
                let _waiting = waited::begin(&claims[n].core, &mut waited);
                limits.clock.sleep(LOOK_AGAIN).await;
            }
        }
        begun = begun.again(limits, open.iter().map(|n| &claims[*n]));
    }
    held.keep();
    if let Some(waited) = waited {
        waited.count();
    }
    for (claim, granted) in claims.iter().zip(&all).filter(|(claim, _)| claim.permits > 0) {
        claim.core.count_admitted(limits, granted.as_ref());
    }
    Ok(all)
}

async fn attempt(
    limits: &Arc<Services>,
    claims: Vec<Claim>,
    begun: &Begun,
    refusals: Option<Refusals>,
    waited: &mut Option<Waited>,
) -> Outcome {
    let first = match refusals {
        Some(refusals) => Err(blocked(&claims, refusals, Times::now(limits, begun.at), |_| false)),
        None => first_try(limits, &claims, begun.at).await,
    };
    match first {
        Ok(granted) => Ok(granted),
        Err(Blocked::For(delay)) => in_line(limits, claims, delay, begun, waited).await,
        Err(Blocked::By(position, rejection)) => Err((position, rejection)),
    }
}

/// Why a call is not admitted now.
enum Blocked {
    /// One claim has to wait.
    For(Delay),
    /// This claim rejects the call.
    By(usize, Rejection),
}

/// When a call began and when its refusals were received, in milliseconds, and the lag as in [`Due`] at that time.
struct Times {
    started: u64,
    now: u64,
    lag: u64,
}

impl Times {
    /// The times of a call whose refusals are received now.
    fn now(limits: &Services, started: u64) -> Self {
        let now = limits.clock.now_ms();
        Self { started, now, lag: lag(limits, started, now) }
    }
}

/// The wait of a claim.
#[derive(Clone, Copy, Debug)]
struct Delay {
    position: usize,
    /// Until when, in milliseconds; the lag as in [`Due`].
    at: u64,
    lag: u64,
    /// Whether a policy decided, because the store did not.
    degraded: bool,
}

/// Returns how much earlier permits may be free than a reply, received now, to a query of this time reports, in
/// milliseconds: the store's times start when it decided, in whole milliseconds of its own clock. A
/// wait that may end in time is not too long.
fn lag(limits: &Services, asked_at: u64, now: u64) -> u64 {
    let tick = u64::from(limits.store.is_shared());
    now.saturating_sub(asked_at) + tick
}

async fn first_try(
    limits: &Arc<Services>,
    claims: &[Claim],
    started: u64,
) -> Result<Vec<Granted>, Blocked> {
    // No caller overtakes waiting callers.
    let queued = |claim: &Claim| !claim.core.queue.is_empty() && !claim.core.is_shadowed(limits);
    for (position, claim) in claims.iter().enumerate().filter(|(_, claim)| queued(claim)) {
        let Claim { core, permits, wait, .. } = claim;
        let permits = match core.ready_if(limits, &core.rule(limits), *permits, || false) {
            Ok(Ready::Decided(_)) => continue,
            Ok(Ready::Ask(_, permits)) => permits,
            Err(rejection) => return Err(Blocked::By(position, rejection)),
        };
        return Err(match wait {
            Wait::None => {
                let after = core.earliest(limits, permits, started, None).max(1);
                Blocked::By(position, core.not_before(limits, Reason::Limited, after))
            }
            // If no caller is in the queue any more, it queries the store at once.
            _ => Blocked::For(Delay { position, at: started, lag: 0, degraded: false }),
        });
    }
    let refused = |refusals| blocked(claims, refusals, Times::now(limits, started), |_| false);
    decide(limits, claims).await.map_err(refused)
}

/// Evaluates refusals: a claim whose wait would be too long rejects the call, until all of them are over;
/// otherwise the call waits for the claim with the longest wait. A call that `overtakes` what is
/// reserved for others waits for less long than the store reports: its queue finds out for how long.
fn blocked(
    claims: &[Claim],
    refusals: Refusals,
    Times { started, now, lag }: Times,
    overtakes: impl Fn(usize) -> bool,
) -> Blocked {
    let latest = refusals.iter().filter_map(|(_, why)| why.retry_after()).max();
    let refused = |reason, refusal| Rejection::refused(reason, refusal).not_before(latest);
    let (mut longest, mut degraded) = ((0, 0), false);
    for (position, why) in refusals {
        let wait = &claims[position].wait;
        let refusal = match why {
            Why::Rejected(rejection) => return Blocked::By(position, rejection),
            Why::NotNow(refusal) => refusal,
        };
        let after = whole_ms(refusal.retry_after.unwrap_or(LOOK_AGAIN));
        degraded |= refusal.degraded;
        if *wait == Wait::None {
            return Blocked::By(position, refused(Reason::Limited, *refusal));
        }
        let is_late = |until: u64| {
            now.saturating_add(after) > until.saturating_add(lag) && !overtakes(position)
        };
        if until(*wait, started).is_some_and(is_late) {
            return Blocked::By(position, refused(Reason::WaitTooLong, *refusal));
        }
        longest = longest.max((after, position));
    }
    Blocked::For(Delay { position: longest.1, at: now.saturating_add(longest.0), lag, degraded })
}

/// Waits in the queue of one claim, and in any queue that the caller is moved to from there.
async fn in_line(
    limits: &Arc<Services>,
    claims: Vec<Claim>,
    delay: Delay,
    begun: &Begun,
    waited: &mut Option<Waited>,
) -> Outcome {
    let core = Arc::clone(&claims[delay.position].core);
    let _waiting = waited::begin(&core, waited);
    let chair = Chair::new(claims, *begun);
    chair.join(limits, delay, begun)?;
    let partial = Turn::new(limits, Arc::clone(&chair)).await?;
    rest::take(limits, &chair.claims, chair.begun.at, partial).await
}

impl Claim {
    /// Resolves a claim that cannot reject the call. Returns `None` if the call must retry,
    /// `Some(None)` if it is admitted without a decision.
    fn settle(&self, limits: &Arc<Services>, rejection: &Rejection) -> Option<Option<Granted>> {
        match rejection.reason() {
            Reason::StoreMisconfigured => {
                self.core.without_store_at_all(limits, self.permits).map(Some)
            }
            Reason::StoreUnavailable if limits.is_shut_down() => {
                self.core.without_store_at_all(limits, self.permits).map(Some)
            }
            Reason::NotConfigured => {
                self.core.complain(limits, StoreError::misconfigured(rejection.to_string()));
                Some(None)
            }
            _ => None,
        }
    }
}
