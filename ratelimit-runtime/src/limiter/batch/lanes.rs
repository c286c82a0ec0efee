//! The lanes of one runtime: which callers wait, and which calls are in flight.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ratelimit_spec::MAX_RATE;
use tokio::{sync::oneshot, time::Instant};

use super::Answer;
use crate::{StoreError, clock, limiter::Core};

/// Callers of one call; a script that serves as many is done in well under a millisecond.
const MAX_CALLERS: usize = 1_024;
/// Flights of one runtime at a time. One that takes longer than a quarter of the deadline does not
/// count, so that a dead node does not hold up the callers of others.
const MAX_FLIGHTS: usize = 16;
/// Lanes that leave together.
const MAX_LANES: usize = 256;

/// The lanes with callers, by limiter. An idle limiter has none.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<State>);

#[derive(Default)]
struct State {
    lanes: HashMap<usize, Lane>,
    /// Lanes whose callers may go as soon as a flight leaves.
    ready: VecDeque<usize>,
    flights: usize,
}

/// The callers of one limiter.
struct Lane {
    core: Arc<Core>,
    queue: VecDeque<Caller>,
    /// Calls in flight.
    calls: usize,
    /// Counts the calls.
    latest: u64,
    pace: Pace,
    is_ready: bool,
    /// The last call that is watched until it is sent.
    guarded: u64,
}

/// How far the latest call of a lane is, which further callers go behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Its task has not run yet.
    Unsent,
    /// Callers gather behind it.
    Sent,
    /// They have gathered for long enough, or it is back.
    Open,
}

/// A caller in a lane.
pub(super) struct Caller {
    pub(super) permits: u32,
    pub(super) since: Instant,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// A caller that is asked for.
pub(super) struct Served {
    pub(super) permits: u32,
    pub(super) since: Instant,
    /// `None` once it was answered.
    pub(super) answer: Option<oneshot::Sender<Answer>>,
}

/// What one call asks for.
pub(super) struct Load {
    pub(super) core: Arc<Core>,
    pub(super) callers: Vec<Served>,
    number: u64,
}

fn key(core: &Arc<Core>) -> usize {
    Arc::as_ptr(core).addr()
}

impl Lanes {
    /// Puts a caller into its limiter's lane. Returns the call that is due by that, and the number
    /// of one that the caller gathers behind and whose task has not run yet.
    pub(super) fn join(
        &self,
        core: &Arc<Core>,
        caller: Caller,
        deadline: Duration,
    ) -> (Option<Load>, Option<u64>) {
        let (key, now) = (key(core), caller.since);
        let mut state = self.state();
        let lane = state.lanes.entry(key).or_insert_with(|| Lane::new(core));
        lane.queue.push_back(caller);
        if lane.pace == Pace::Open && !lane.is_ready {
            return (state.depart(key), None);
        }
        let first = lane.queue.front().map_or(now, |first| first.since);
        // A flight that was to take them along did not; the runtime may have threads that block.
        if now.saturating_duration_since(first) > deadline / 2 {
            return (state.leave(key), None);
        }
        let is_first = lane.pace == Pace::Unsent && lane.guarded != lane.latest;
        lane.guarded = lane.latest;
        (None, is_first.then_some(lane.latest))
    }

    /// Takes note that a call has left.
    pub(super) fn sent(&self, load: &Load) {
        if let Some(lane) = self.state().lanes.get_mut(&key(&load.core))
            && lane.latest == load.number
        {
            lane.pace = Pace::Sent;
        }
    }

    /// Ends the gathering behind a call: those who gathered go, those who come go at once.
    pub(super) fn gathered(&self, load: &Load) -> Option<Load> {
        let key = key(&load.core);
        let mut state = self.state();
        let lane = state.lanes.get_mut(&key)?;
        if lane.latest != load.number || lane.pace != Pace::Sent {
            return None;
        }
        lane.pace = Pace::Open;
        state.depart(key)
    }

    /// Sends callers past a call that should have been sent by now.
    pub(super) fn overtake(&self, core: &Arc<Core>, number: u64) -> Option<Load> {
        let key = key(core);
        let mut state = self.state();
        let lane = state.lanes.get(&key)?;
        let is_stuck = lane.latest == number && lane.pace == Pace::Unsent;
        if is_stuck { state.leave(key) } else { None }
    }

    /// Takes note that a call is back, or was dropped.
    pub(super) fn returned(&self, load: &Load) -> Option<Load> {
        let key = key(&load.core);
        let mut state = self.state();
        let lane = state.lanes.get_mut(&key)?;
        lane.calls -= 1;
        if lane.latest == load.number {
            lane.pace = Pace::Open;
        }
        // What is not sent yet is not to be overtaken.
        if lane.pace == Pace::Unsent { None } else { state.depart(key) }
    }

    /// Takes note that a flight is over. Returns what leaves in its place.
    pub(super) fn land(&self) -> Vec<Load> {
        let mut state = self.state();
        state.flights -= 1;
        let mut loads = Vec::new();
        while state.flights < MAX_FLIGHTS
            && loads.len() < MAX_LANES
            && let Some(key) = state.ready.pop_front()
        {
            if let Some(lane) = state.lanes.get_mut(&key) {
                lane.is_ready = false;
                loads.extend(state.take(key));
            }
        }
        state.flights += usize::from(!loads.is_empty());
        loads
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Lets the callers of a lane go, or puts it on the list of those that wait for a flight.
    fn depart(&mut self, key: usize) -> Option<Load> {
        if self.flights < MAX_FLIGHTS {
            return self.leave(key);
        }
        let lane = self.lanes.get_mut(&key)?;
        if lane.queue.is_empty() {
            self.forget_idle(key);
        } else if !std::mem::replace(&mut lane.is_ready, true) {
            self.ready.push_back(key);
        }
        None
    }

    /// Lets the callers of a lane go, in a flight of their own.
    fn leave(&mut self, key: usize) -> Option<Load> {
        let load = self.take(key)?;
        self.flights += 1;
        Some(load)
    }

    /// What the next call of a lane asks for; `None` if all its callers are gone.
    fn take(&mut self, key: usize) -> Option<Load> {
        let lane = self.lanes.get_mut(&key)?;
        let (mut callers, mut total) = (Vec::new(), 0_u32);
        while let Some(next) = lane.queue.front() {
            if next.answer.is_closed() {
                lane.queue.pop_front();
                continue;
            }
            total = total.saturating_add(next.permits);
            // What is granted together is one entry of the log, which holds no more.
            if callers.len() == MAX_CALLERS || (total > MAX_RATE && !callers.is_empty()) {
                break;
            }
            callers.extend(lane.queue.pop_front().map(Served::from));
        }
        if callers.is_empty() {
            self.forget_idle(key);
            return None;
        }
        lane.calls += 1;
        lane.latest += 1;
        lane.pace = Pace::Unsent;
        Some(Load { core: Arc::clone(&lane.core), callers, number: lane.latest })
    }

    fn forget_idle(&mut self, key: usize) {
        if self.lanes.get(&key).is_some_and(|lane| lane.calls == 0 && lane.queue.is_empty()) {
            self.lanes.remove(&key);
        }
    }
}

impl Lane {
    fn new(core: &Arc<Core>) -> Self {
        Self {
            core: Arc::clone(core),
            queue: VecDeque::new(),
            calls: 0,
            latest: 0,
            pace: Pace::Open,
            is_ready: false,
            guarded: 0,
        }
    }
}

impl From<Caller> for Served {
    fn from(caller: Caller) -> Self {
        let Caller { permits, since, answer } = caller;
        Self { permits, since, answer: Some(answer) }
    }
}

impl Load {
    pub(super) fn costs(&self) -> Vec<u32> {
        self.callers.iter().map(|caller| caller.permits).collect()
    }

    /// Answers the callers whose time is over, and returns when that of the next one is.
    pub(super) fn give_up(&mut self, now: Instant, deadline: Duration) -> Instant {
        const LATER: Duration = Duration::from_secs(3_600);
        let mut next = now + LATER;
        for caller in &mut self.callers {
            // A runtime that was held up is still to read what arrived meanwhile.
            let due = caller.since + deadline + clock::LATE;
            if now < due {
                // They are in the order they came.
                next = next.min(due);
                break;
            }
            if let Some(answer) = caller.answer.take() {
                let error = StoreError::unavailable(format!("no answer within {deadline:?}"));
                // One that is gone needs none.
                let _ = answer.send(Err(error));
            }
        }
        next
    }

    /// Answers all callers.
    pub(super) fn fail(&mut self, error: &StoreError) {
        for answer in self.callers.drain(..).filter_map(|caller| caller.answer) {
            let _ = answer.send(Err(error.clone()));
        }
    }
}
