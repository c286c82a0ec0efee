//! Callers of one limiter share calls to the store.
//!
//! A call that finds none of its limiter in flight goes out at once. While one is in flight,
//! further callers gather, for 2 ms at most or until it returns, and then go out behind it, in the
//! order they came, on the same connection. Each runtime that calls has lanes of its own, and a
//! batch is a task of that runtime and no part of any caller's future: a caller that is dropped,
//! or kept and never polled again, holds nobody up.
//!
//! Permits that were granted to callers that are gone by then are given back.

mod call;
mod lanes;

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    runtime::{Id, RuntimeFlavor},
    sync::oneshot,
    task::yield_now,
    time::{Instant, sleep},
};

pub(crate) use self::lanes::Lanes;
use self::{
    call::Together,
    lanes::{Caller, Load},
};
use super::{Core, Taken, plan::Asked, replies::Replies};
use crate::{Limits, StoreError, clock, home::Home, limits::AnyStore};

/// How long callers gather at most behind a call in flight.
const GATHER: Duration = Duration::from_millis(2);

/// What a caller receives.
type Answer = Result<Replies, StoreError>;

/// Asks the store for claims that one call can decide.
pub(super) async fn ask(limits: &Limits, asked: &[&Asked<'_>]) -> Result<Vec<Replies>, StoreError> {
    match (&limits.inner().store, asked) {
        (AnyStore::Memory(_), _) => call::embedded(limits.inner(), asked).await,
        (AnyStore::Redis(_), [one]) => Ok(vec![in_batch(limits, one.core, one.permits).await?]),
        (AnyStore::Redis(_), _) => Together::start(limits, asked).await,
    }
}

/// Asks the store, together with the other callers of this limiter and runtime.
async fn in_batch(limits: &Limits, core: &Arc<Core>, permits: u32) -> Result<Replies, StoreError> {
    let lanes = &limits.inner().lanes;
    let mut asking = Asking::start(core, limits, permits, lanes.here());
    loop {
        let tried = asking.at;
        if let Some(answer) = asking.await {
            return answer;
        }
        // The runtime has ended, or another executor polls this call by now.
        let here = lanes.here();
        let at = if here.id() == tried { lanes.of_engine() } else { here };
        if at.id() == tried {
            return Err(StoreError::unavailable("the call to the store was aborted"));
        }
        asking = Asking::start(core, limits, permits, at);
    }
}

/// Joins the lane of a limiter, and sends a batch if one is due.
fn join(
    at: &Arc<Home<Lanes>>,
    core: &Arc<Core>,
    limits: &Limits,
    permits: u32,
) -> oneshot::Receiver<Answer> {
    let (answer, received) = oneshot::channel();
    let caller = Caller { permits, since: clock::instant(), answer };
    let (load, unsent) = at.join(core, caller, limits.inner().deadline);
    if let Some(load) = load {
        send(at, limits, [load]);
    }
    if let Some(number) = unsent {
        guard(at, core, limits, number);
    }
    received
}

/// Watches a call whose task waits for a thread: one that blocks keeps the task it started last,
/// while other threads of the runtime run.
fn guard(at: &Arc<Home<Lanes>>, core: &Arc<Core>, limits: &Limits, number: u64) {
    if !matches!(at.runtime().runtime_flavor(), RuntimeFlavor::MultiThread) {
        return;
    }
    let (lanes, core, limits) = (Arc::clone(at), Arc::clone(core), limits.clone());
    at.runtime().spawn(async move {
        sleep(GATHER).await;
        if let Some(load) = lanes.overtake(&core, number) {
            send(&lanes, &limits, [load]);
        }
    });
}

/// Starts the calls of one flight, side by side: each lane's is a task.
fn send(at: &Arc<Home<Lanes>>, limits: &Limits, loads: impl IntoIterator<Item = Load>) {
    let flight = Arc::new(Flight { at: Arc::clone(at), limits: limits.clone() });
    for load in loads {
        let batch = Batch {
            load,
            flight: Some(Arc::clone(&flight)),
            at: Arc::clone(at),
            limits: limits.clone(),
        };
        at.runtime().spawn(batch.serve());
    }
}

/// A caller that waits for its answer.
struct Asking<'a> {
    core: &'a Arc<Core>,
    limits: &'a Limits,
    permits: u32,
    at: Id,
    is_new: bool,
    answer: oneshot::Receiver<Answer>,
}

impl<'a> Asking<'a> {
    #[expect(clippy::needless_pass_by_value, reason = "it is not kept while the caller waits")]
    fn start(core: &'a Arc<Core>, limits: &'a Limits, permits: u32, at: Arc<Home<Lanes>>) -> Self {
        let answer = join(&at, core, limits, permits);
        Self { core, limits, permits, at: at.id(), is_new: true, answer }
    }
}

impl Future for Asking<'_> {
    /// `None` if nobody will answer: the caller is to ask elsewhere.
    type Output = Option<Answer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.answer).poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer.ok()),
            Poll::Pending if std::mem::take(&mut self.is_new) => Poll::Pending,
            Poll::Pending => {
                let here = clock::runtime_here(self.limits.inner().lanes.engine());
                if here.id() == self.at { Poll::Pending } else { Poll::Ready(None) }
            }
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.answer.close();
        // An answer that arrived and was never looked at.
        if let Ok(Ok(replies)) = self.answer.try_recv() {
            let inner = self.limits.inner();
            let taken = Taken::unclaimed(self.core, inner, self.permits, &replies);
            Taken::give_back_later(self.limits, taken);
        }
    }
}

/// Calls that went out together. Few are in flight at a time, so that many lanes share one; the
/// next leaves when all of this one's have returned, or when they take long.
struct Flight {
    at: Arc<Home<Lanes>>,
    limits: Limits,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let next = self.at.land();
        if !next.is_empty() {
            send(&self.at, &self.limits, next);
        }
    }
}

/// One call to the store, and the callers it is for.
struct Batch {
    load: Load,
    flight: Option<Arc<Flight>>,
    at: Arc<Home<Lanes>>,
    limits: Limits,
}

impl Batch {
    async fn serve(mut self) {
        let limits = self.limits.clone();
        let replies = self.call().await;
        let several = self.load.callers.len() > 1;
        let unclaimed = self.answer(replies);
        if several {
            // Callers may be back at once: one more call for all of them is better than one for
            // the first and one for the rest.
            yield_now().await;
        }
        drop(self);
        for taken in unclaimed {
            taken.give_back(&limits).await;
        }
    }

    /// Makes the call. Each caller is answered by its own deadline, whenever the store replies.
    async fn call(&mut self) -> Result<Vec<Replies>, StoreError> {
        let (core, limits) = (Arc::clone(&self.load.core), self.limits.clone());
        let (inner, costs) = (limits.inner(), self.load.costs());
        let mut call = pin!(call::of_one(inner, &core, &costs));
        let started = clock::instant();
        let mut timer = pin!(sleep(GATHER));
        let mut is_sent = false;
        loop {
            let replies = poll_fn(|cx| {
                if let Poll::Ready(replies) = call.as_mut().poll(cx) {
                    return Poll::Ready(Some(replies));
                }
                if !std::mem::replace(&mut is_sent, true) {
                    self.at.sent(&self.load);
                }
                timer.as_mut().poll(cx).map(|()| None)
            });
            if let Some(replies) = replies.await {
                return replies;
            }
            let next = self.advance(started, inner.deadline);
            timer.set(sleep(next.saturating_duration_since(clock::instant())));
        }
    }

    /// Does what is due while the call is in flight, and returns when to look again.
    fn advance(&mut self, started: Instant, deadline: Duration) -> Instant {
        let now = clock::instant();
        if now >= started + GATHER
            && let Some(load) = self.at.gathered(&self.load)
        {
            send(&self.at, &self.limits, [load]);
        }
        let lands = started + deadline / 4;
        if now >= lands {
            self.flight = None;
        }
        let due = self.load.give_up(now, deadline);
        if self.flight.is_some() { due.min(lands) } else { due }
    }

    /// Gives each caller its part of the reply, and returns what was granted to callers that are
    /// gone.
    fn answer(&mut self, replies: Result<Vec<Replies>, StoreError>) -> Vec<Taken> {
        let replies = match replies {
            Ok(replies) => replies,
            Err(error) => {
                self.load.fail(&error);
                return Vec::new();
            }
        };
        let mut unclaimed = Vec::new();
        let (core, limits) = (&self.load.core, self.limits.inner());
        for (caller, replies) in self.load.callers.drain(..).zip(replies) {
            let left = match caller.answer {
                Some(answer) => answer.send(Ok(replies)).err().and_then(Result::ok),
                None => Some(replies),
            };
            let taken = left.and_then(|left| Taken::unclaimed(core, limits, caller.permits, &left));
            unclaimed.extend(taken);
        }
        unclaimed
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(load) = self.at.returned(&self.load) {
            send(&self.at, &self.limits, [load]);
        }
    }
}
