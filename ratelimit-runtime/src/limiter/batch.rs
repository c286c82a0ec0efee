//! Batches store calls of concurrent callers.
//!
//! A caller of a limiter without a call in flight makes its call immediately. While a call is in
//! flight, further callers gather until it returns, for 2 ms at most, and are then sent behind it
//! on the same connection, in arrival order. Callers of different limiters that are sent together
//! share a call if their keys allow it, and are decided independently.
//!
//! Each runtime has its own lanes, and a batch is a task of that runtime instead of a part of a
//! caller's future: a caller that is dropped, or never polled again, delays no other. A lone caller
//! makes its own call, as the first step of that task. Permits granted to callers that have been
//! dropped meanwhile are released.

mod call;

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    runtime::Id,
    sync::oneshot,
    task::yield_now,
    time::{Instant, sleep},
};

use self::call::Together;
use super::{
    Core, Taken,
    lanes::{Answer, Caller, GATHER, Lanes, Load, MAX_CALLERS, counts_for},
    plan::Asked,
    replies::{OfCaller, Replies},
    services::Services,
};
use crate::{StoreError, clock, home::Home, store::AnyStore, task};

/// The maximum number of limiters in one call.
const MAX_SHARED: usize = 32;

/// Sends claims that a single call can decide to the store.
pub(super) async fn ask(
    limits: &Arc<Services>,
    asked: &[&Asked<'_>],
) -> Result<Vec<Replies>, StoreError> {
    match (&limits.store, asked) {
        (AnyStore::Memory(_), _) => call::embedded(limits, asked).await,
        (AnyStore::Redis(_), [one]) => {
            let replies = Asking::start(limits, one.core, one.permits).await?;
            Ok(vec![(*replies).clone()])
        }
        (AnyStore::Redis(_), _) => Together::start(limits, asked).await,
    }
}

/// Adds a caller to the lane of a limiter, and sends the calls that are due then.
fn join(
    at: &Arc<Home<Lanes>>,
    core: &Arc<Core>,
    limits: &Arc<Services>,
    permits: u32,
) -> oneshot::Receiver<Answer> {
    let (answer, received) = oneshot::channel();
    let caller = Caller { permits, since: clock::instant(), answer };
    let loads = at.join(core, caller, limits.deadline);
    for call in calls(at, limits, loads) {
        task::begin(at.runtime(), call);
    }
    received
}

/// Starts the calls of a flight that leaves behind another one.
fn send(at: &Arc<Home<Lanes>>, limits: &Arc<Services>, loads: Vec<Load>) {
    for call in calls(at, limits, loads) {
        at.runtime().spawn(call);
    }
}

/// The calls of one flight, which run concurrently.
fn calls(
    at: &Arc<Home<Lanes>>,
    limits: &Arc<Services>,
    loads: Vec<Load>,
) -> impl Iterator<Item = impl Future<Output = ()> + Send + use<>> {
    let flight = || Arc::new(Flight { at: Arc::clone(at), limits: limits.clone() });
    let flight = (!loads.is_empty()).then(flight);
    shared(&limits.store, loads).into_iter().map(move |loads| {
        let (flight, unfinished) = (flight.clone(), limits.engine.begin());
        let batch = Batch { loads, flight, at: Arc::clone(at), limits: limits.clone() };
        async move {
            batch.serve().await;
            drop(unfinished);
        }
    })
}

/// Groups loads into calls: those of limiters that one call can decide.
fn shared(store: &AnyStore, loads: Vec<Load>) -> Vec<Vec<Load>> {
    let mut calls: Vec<Vec<Load>> = Vec::new();
    for load in loads {
        let fits = |call: &&mut Vec<Load>| {
            let callers: usize = call.iter().map(|load| load.callers.len()).sum();
            call.len() < MAX_SHARED
                && callers + load.callers.len() <= MAX_CALLERS
                && store.one_call(&call[0].core.keys, &load.core.keys)
        };
        match calls.last_mut().filter(fits) {
            Some(call) => call.push(load),
            None => calls.push(vec![load]),
        }
    }
    calls
}

/// A caller that waits for its answer. Its request is sent with those of the other callers of its
/// limiter and runtime.
pub(super) struct Asking<'a> {
    core: &'a Arc<Core>,
    limits: &'a Arc<Services>,
    permits: u32,
    is_new: bool,
    at: Id,
    /// `None` once it was returned.
    answer: Option<oneshot::Receiver<Answer>>,
}

impl<'a> Asking<'a> {
    pub(super) fn start(limits: &'a Arc<Services>, core: &'a Arc<Core>, permits: u32) -> Self {
        Self::at(&limits.lanes.here(), limits, core, permits)
    }

    fn at(
        at: &Arc<Home<Lanes>>,
        limits: &'a Arc<Services>,
        core: &'a Arc<Core>,
        permits: u32,
    ) -> Self {
        let answer = Some(join(at, core, limits, permits));
        Self { core, limits, permits, is_new: true, at: at.id(), answer }
    }

    /// Sends the request from another runtime, because no answer will arrive here: the runtime has
    /// ended, or another executor polls this call now. Returns `None` if there is no other runtime.
    fn elsewhere(&self) -> Option<Self> {
        let lanes = &self.limits.lanes;
        let here = lanes.here();
        let at = if here.id() == self.at { lanes.of_engine() } else { here };
        (at.id() != self.at).then(|| Self::at(&at, self.limits, self.core, self.permits))
    }
}

impl Future for Asking<'_> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        loop {
            let answer = self.answer.as_mut().expect("polled after it was ready");
            match Pin::new(answer).poll(cx) {
                Poll::Ready(Ok(answer)) => {
                    self.answer = None;
                    return Poll::Ready(answer);
                }
                Poll::Ready(Err(_)) => {}
                Poll::Pending if std::mem::take(&mut self.is_new) => return Poll::Pending,
                Poll::Pending => {
                    let here = clock::runtime_here(self.limits.lanes.engine());
                    if here.id() == self.at {
                        return Poll::Pending;
                    }
                }
            }
            match self.elsewhere() {
                Some(asking) => *self = asking,
                None => {
                    let error = StoreError::unavailable("the call to the store was aborted");
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let Some(answer) = &mut self.answer else { return };
        answer.close();
        // An answer arrived but was never read.
        if let Ok(Ok(replies)) = answer.try_recv() {
            let taken = Taken::unclaimed(self.core, self.limits, self.permits, &replies);
            Taken::give_back_later(self.limits, taken);
        }
    }
}

/// Calls that were sent together. Few flights are in progress at a time, so that many lanes share
/// one; the next leaves when all calls of this one have returned, or when they take long.
struct Flight {
    at: Arc<Home<Lanes>>,
    limits: Arc<Services>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        send(&self.at, &self.limits, self.at.land());
    }
}

/// One call to the store, and the callers that it serves.
struct Batch {
    loads: Vec<Load>,
    flight: Option<Arc<Flight>>,
    at: Arc<Home<Lanes>>,
    limits: Arc<Services>,
}

impl Batch {
    async fn serve(mut self) {
        let limits = self.limits.clone();
        let started = clock::instant();
        let replies = self.call().await;
        let late = clock::instant() > started + limits.deadline;
        let several = self.loads.len() > 1 || self.loads[0].callers.len() > 1;
        let unclaimed = self.answer(replies);
        if several {
            // Callers may return immediately: one more call for all of them is better than one for
            // the first and one for the rest.
            yield_now().await;
        }
        drop(self);
        for taken in unclaimed {
            taken.give_back_unclaimed(&limits, late).await;
        }
    }

    /// Makes the call. Each caller gets an answer by its own deadline, regardless of when the store replies.
    async fn call(&mut self) -> Vec<Result<Vec<Replies>, StoreError>> {
        let limits = self.limits.clone();
        let claims = self.loads.iter().map(|load| (Arc::clone(&load.core), load.costs())).collect();
        let mut call = pin!(call::of_each(&limits, &claims));
        let started = clock::instant();
        let mut timer = pin!(sleep(GATHER));
        let mut is_sent = false;
        loop {
            let replies = poll_fn(|cx| {
                if let Poll::Ready(replies) = call.as_mut().poll(cx) {
                    return Poll::Ready(Some(replies));
                }
                if !std::mem::replace(&mut is_sent, true) {
                    self.at.sent(&self.loads);
                }
                timer.as_mut().poll(cx).map(|()| None)
            });
            if let Some(replies) = replies.await {
                return replies;
            }
            let next = self.advance(started, limits.deadline);
            timer.set(sleep(next.saturating_duration_since(clock::instant())));
        }
    }

    /// Does what is due while the call is in flight, and returns when to check again.
    fn advance(&mut self, started: Instant, deadline: Duration) -> Instant {
        let now = clock::instant();
        if now >= started + GATHER {
            send(&self.at, &self.limits, self.at.gathered(&self.loads));
        }
        let lands = started + counts_for(deadline);
        if now >= lands {
            self.flight = None;
        }
        let due = self.loads.iter_mut().filter_map(|load| load.give_up(now, deadline));
        due.chain(self.flight.is_some().then_some(lands)).min().unwrap_or(now + deadline)
    }

    /// Gives each caller its part of the reply, and returns what was granted to callers that are
    /// gone.
    fn answer(&mut self, replies: Vec<Result<Vec<Replies>, StoreError>>) -> Vec<Taken> {
        let (mut unclaimed, limits) = (Vec::new(), &self.limits);
        for (load, replies) in self.loads.iter_mut().zip(replies) {
            match replies {
                Ok(replies) => unclaimed.extend(answer(load, limits, replies)),
                Err(error) => load.fail(&error),
            }
        }
        unclaimed
    }
}

/// Gives each caller its reply, and returns what was granted to callers that are gone.
fn answer(load: &mut Load, limits: &Services, replies: Vec<Replies>) -> Vec<Taken> {
    let core = &load.core;
    let callers = load.callers.drain(..).zip(OfCaller::each(replies));
    let unclaimed = callers.filter_map(|(caller, replies)| {
        let left = match caller.answer {
            Some(answer) => answer.send(Ok(replies)).err()?.ok()?,
            None => replies,
        };
        Taken::unclaimed(core, limits, caller.permits, &left)
    });
    unclaimed.collect()
}

impl Drop for Batch {
    fn drop(&mut self) {
        send(&self.at, &self.limits, self.at.returned(&self.loads));
    }
}
