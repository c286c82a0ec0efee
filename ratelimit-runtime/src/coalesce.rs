//! Callers of one limiter share a call to the store.
//!
//! While a call is in flight, whoever comes queues; the next call asks for all of them at once, in
//! the order they came. Somebody who comes alone calls at once and for nobody else, so that it
//! pays nothing for the others. A caller that was dropped while it queued was never asked for.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ratelimit_spec::MAX_RATE;
use tokio::{sync::oneshot, time::Instant};

use crate::{StoreError, clock, store::Heard};

/// Callers one call asks for; a script that serves so many is done in well under a millisecond.
const MAX_CALLERS: usize = 1_024;

/// What a caller that queued hears. It is told nothing when it was not asked for.
pub(crate) type Answer = Result<Heard, StoreError>;

/// The way to the store for the callers of one limiter: one call at a time.
#[derive(Default)]
pub(crate) struct Lane(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whether a call is in flight, or about to be.
    taken: bool,
    queue: VecDeque<Caller>,
}

/// Where a caller finds the lane.
pub(crate) enum Entry {
    /// It is this caller's now, until [`Lane::leave`].
    Free,
    /// Somebody else's call is in flight; this is where to hear of the next.
    Queued(oneshot::Receiver<Answer>),
}

/// A caller in the queue.
struct Caller {
    permits: u32,
    since: Instant,
    answer: oneshot::Sender<Answer>,
}

impl Lane {
    pub(crate) fn enter(&self, permits: u32) -> Entry {
        let mut state = self.state();
        if !state.taken {
            state.taken = true;
            return Entry::Free;
        }
        let (answer, heard) = oneshot::channel();
        state.queue.push_back(Caller { permits, since: clock::instant(), answer });
        Entry::Queued(heard)
    }

    /// Leaves the lane to others; false when some are queued, who need somebody to call for them
    /// and keep it until then.
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.state();
        state.taken = !state.queue.is_empty();
        !state.taken
    }

    /// Those who are queued, for one call; none when they all went, and the lane is left.
    pub(crate) fn next(&self) -> Option<Batch> {
        let mut state = self.state();
        let (mut callers, mut total) = (VecDeque::new(), 0_u32);
        while let Some(next) = state.queue.front() {
            total = total.saturating_add(next.permits);
            // What is granted together is one entry of the log, which holds no more.
            if callers.len() == MAX_CALLERS || (total > MAX_RATE && !callers.is_empty()) {
                break;
            }
            let caller = state.queue.pop_front().expect("there is one in front");
            if caller.answer.is_closed() {
                total -= caller.permits;
            } else {
                callers.push_back(caller);
            }
        }
        state.taken = !callers.is_empty();
        state.taken.then_some(Batch { callers })
    }

    /// Sends everybody who is queued away unasked, and leaves the lane.
    pub(crate) fn abandon(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The callers one call asks for. Whoever was not told when it is dropped hears that nobody knows
/// what became of the call.
pub(crate) struct Batch {
    callers: VecDeque<Caller>,
}

impl Batch {
    pub(crate) fn costs(&self) -> Vec<u32> {
        self.callers.iter().map(|caller| caller.permits).collect()
    }

    /// Since when the first of them waits.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.callers.front().map(|caller| caller.since)
    }

    /// Tells the first one that it waited for too long.
    pub(crate) fn give_up_first(&mut self, error: StoreError) {
        if let Some(caller) = self.callers.pop_front() {
            // A caller that went does not want to know.
            let _ = caller.answer.send(Err(error));
        }
    }

    /// Tells each of them its part of the answer.
    pub(crate) fn tell(mut self, replies: Result<Vec<Heard>, StoreError>) {
        match replies {
            Ok(replies) => {
                // Those in front who gave up were asked for too.
                let told = replies.len().saturating_sub(self.callers.len());
                for (caller, reply) in self.callers.drain(..).zip(replies.into_iter().skip(told)) {
                    let _ = caller.answer.send(Ok(reply));
                }
            }
            Err(error) => self.tell_all(&error),
        }
    }

    fn tell_all(&mut self, error: &StoreError) {
        for caller in self.callers.drain(..) {
            let _ = caller.answer.send(Err(error.clone()));
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.callers.is_empty() {
            self.tell_all(&StoreError::unavailable("the call to the store was aborted"));
        }
    }
}
