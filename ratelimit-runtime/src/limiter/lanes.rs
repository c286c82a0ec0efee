//! The lanes of one runtime: the callers of each limiter that wait for a call, and the calls in flight.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ratelimit_spec::MAX_RATE;
use tokio::{sync::oneshot, time::Instant};

use super::{core::Core, replies::OfCaller};
use crate::{StoreError, clock};

/// What a caller receives.
pub(super) type Answer = Result<OfCaller, StoreError>;

/// The maximum number of callers in one call; a script that serves that many takes well under a millisecond.
pub(super) const MAX_CALLERS: usize = 1_024;
/// The maximum number of concurrent flights of one runtime. A flight counts only [for a while](counts_for).
const MAX_FLIGHTS: u32 = 8;
/// The maximum time for which callers gather behind a call in flight.
pub(super) const GATHER: Duration = Duration::from_millis(2);
/// The maximum number of lanes that leave together.
const MAX_LANES: usize = 256;

/// The lanes with callers, by limiter. An idle limiter has none.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<State>);

#[derive(Default)]
struct State {
    lanes: HashMap<usize, Lane, BuildHasherDefault<OfAddress>>,
    /// Lanes whose callers leave with the next flight.
    ready: VecDeque<usize>,
    flights: u32,
}

/// The callers of one limiter.
struct Lane {
    core: Arc<Core>,
    queue: VecDeque<Caller>,
    /// The number of calls in flight.
    calls: usize,
    /// The number of the latest call.
    latest: u64,
    pace: Pace,
    is_ready: bool,
}

/// The state of a lane's latest call, which later callers follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// The task of the call has not run yet.
    Unsent,
    /// Callers gather behind the call.
    Sent,
    /// The gathering time is over, or the call has returned.
    Open,
}

/// A caller in a lane.
pub(super) struct Caller {
    pub(super) permits: u32,
    pub(super) since: Instant,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// A caller that is part of a call.
pub(super) struct Served {
    pub(super) permits: u32,
    pub(super) since: Instant,
    /// `None` once the answer was sent.
    pub(super) answer: Option<oneshot::Sender<Answer>>,
}

/// The callers of one lane that leave together.
pub(super) struct Load {
    pub(super) core: Arc<Core>,
    pub(super) callers: Vec<Served>,
    number: u64,
}

/// Returns for how long a flight counts. Behind a slow network, flights leave as often as callers gather; and a dead
/// node delays callers of other nodes by a part of their deadline.
pub(super) fn counts_for(deadline: Duration) -> Duration {
    (GATHER * MAX_FLIGHTS).min(deadline / 4)
}

fn key(core: &Arc<Core>) -> usize {
    Arc::as_ptr(core).addr()
}

/// Hashes an address, which no caller can choose. A call needs it several times.
#[derive(Default)]
struct OfAddress(u64);

impl Hasher for OfAddress {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, address: usize) {
        // Multiplies by the golden ratio, which spreads neighbors; a table uses the lowest and the highest bits.
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Lanes {
    /// Adds a caller to its limiter's lane, and returns the flight that is due then.
    pub(super) fn join(&self, core: &Arc<Core>, caller: Caller, deadline: Duration) -> Vec<Load> {
        let (key, now) = (key(core), caller.since);
        let mut state = self.state();
        let lane = state.lanes.entry(key).or_insert_with(|| Lane::new(core));
        lane.queue.push_back(caller);
        if lane.pace == Pace::Open && !lane.is_ready {
            return state.depart([key]);
        }
        let first = lane.queue.front().map_or(now, |first| first.since);
        // The flight that should have included them did not leave; the runtime's threads may be blocked.
        if now.saturating_duration_since(first) > deadline / 2 {
            return state.leave(key);
        }
        Vec::new()
    }

    /// Records that a call was sent.
    pub(super) fn sent(&self, loads: &[Load]) {
        let mut state = self.state();
        for load in loads {
            if let Some(lane) = state.latest(load) {
                lane.pace = Pace::Sent;
            }
        }
    }

    /// Ends the gathering behind a call: its callers leave, and later ones leave immediately.
    pub(super) fn gathered(&self, loads: &[Load]) -> Vec<Load> {
        let mut state = self.state();
        let mut open = Vec::new();
        for load in loads {
            if let Some(lane) = state.latest(load).filter(|lane| lane.pace == Pace::Sent) {
                lane.pace = Pace::Open;
                open.push(key(&load.core));
            }
        }
        state.depart(open)
    }

    /// Records that a call has returned or was dropped.
    pub(super) fn returned(&self, loads: &[Load]) -> Vec<Load> {
        let mut state = self.state();
        let mut open = Vec::new();
        for load in loads {
            let key = key(&load.core);
            let Some(lane) = state.lanes.get_mut(&key) else { continue };
            lane.calls -= 1;
            if lane.latest == load.number {
                lane.pace = Pace::Open;
            }
            // A call that is not sent yet must not be overtaken.
            if lane.pace != Pace::Unsent {
                open.push(key);
            }
        }
        state.depart(open)
    }

    /// Records that a flight is over. Returns the one that leaves in its place.
    pub(super) fn land(&self) -> Vec<Load> {
        let mut state = self.state();
        state.flights -= 1;
        state.take_off()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the lane of these callers, if no later call left it.
    fn latest(&mut self, load: &Load) -> Option<&mut Lane> {
        self.lanes.get_mut(&key(&load.core)).filter(|lane| lane.latest == load.number)
    }

    /// Schedules the callers of these lanes for the next flight, and returns it if it leaves now.
    fn depart(&mut self, keys: impl IntoIterator<Item = usize>) -> Vec<Load> {
        for key in keys {
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            if lane.queue.is_empty() {
                self.forget_idle(key);
            } else if !std::mem::replace(&mut lane.is_ready, true) {
                self.ready.push_back(key);
            }
        }
        self.take_off()
    }

    /// Returns the next flight, unless none is due or the maximum number is in progress.
    fn take_off(&mut self) -> Vec<Load> {
        let mut loads = Vec::new();
        while self.flights < MAX_FLIGHTS
            && loads.len() < MAX_LANES
            && let Some(key) = self.ready.pop_front()
        {
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.is_ready = false;
                loads.extend(self.take(key));
            }
        }
        self.flights += u32::from(!loads.is_empty());
        loads
    }

    /// Sends the callers of a lane immediately, in a flight of their own.
    fn leave(&mut self, key: usize) -> Vec<Load> {
        let load = self.take(key);
        self.flights += u32::from(load.is_some());
        load.into_iter().collect()
    }

    /// Takes the callers of a lane that its next call serves; `None` if all of them are gone.
    fn take(&mut self, key: usize) -> Option<Load> {
        let lane = self.lanes.get_mut(&key)?;
        let mut callers = Vec::with_capacity(lane.queue.len().min(MAX_CALLERS));
        let mut total = 0_u32;
        while let Some(next) = lane.queue.front() {
            if next.answer.is_closed() {
                lane.queue.pop_front();
                continue;
            }
            total = total.saturating_add(next.permits);
            // Permits granted together form one log entry, which cannot hold more.
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

    /// Fails the callers whose deadline has passed, and returns when the next one is due.
    pub(super) fn give_up(&mut self, now: Instant, deadline: Duration) -> Option<Instant> {
        for caller in &mut self.callers {
            // A delayed runtime still has to read replies that arrived meanwhile.
            let due = caller.since + deadline + clock::LATE;
            if now < due {
                // Callers are in arrival order.
                return Some(due);
            }
            if let Some(answer) = caller.answer.take() {
                // A caller that is gone needs no answer.
                let _ = answer.send(Err(StoreError::late(deadline)));
            }
        }
        None
    }

    /// Fails all callers.
    pub(super) fn fail(&mut self, error: &StoreError) {
        for answer in self.callers.drain(..).filter_map(|caller| caller.answer) {
            let _ = answer.send(Err(error.clone()));
        }
    }
}
