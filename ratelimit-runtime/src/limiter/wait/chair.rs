//! A caller's position in a queue, which receives its answer.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use ratelimit_spec::Wait;

use super::{Begun, Delay, Due, Granted, Place, Ready, Slot, Ticket, until};
use crate::{
    Reason, Rejection,
    limiter::{Core, plan::Claim, services::Services},
};

/// A caller that waits: its request, and the cell for its answer.
#[derive(Debug)]
pub(super) struct Chair {
    pub(super) claims: Vec<Claim>,
    pub(super) begun: Begun,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) answer: Answer,
    /// The claim in whose queue the caller is, and the number of its place there.
    pub(super) place: Option<(usize, u64)>,
    /// The number of queues joined so far, and of the times that others took what the call waited for there.
    turns: usize,
    /// When the head of the queue expects the permits of all claims, in milliseconds.
    free_at: u64,
    /// What it has received of some of its limiters.
    pub(super) held: Vec<Received>,
}

#[derive(Debug)]
pub(super) enum Answer {
    Awaited(Option<Waker>),
    There(Result<Vec<Received>, (usize, Rejection)>),
    /// The answer was read, or the caller has left.
    Over,
}

/// What a caller received of one limiter.
#[derive(Debug)]
pub(super) struct Received {
    /// Of the claim.
    pub(super) position: usize,
    pub(super) granted: Granted,
    /// The reservation that was used.
    pub(super) slot: Option<Slot<Ticket>>,
}

impl Chair {
    pub(super) fn new(claims: Vec<Claim>, begun: Begun) -> Arc<Self> {
        let state = State {
            answer: Answer::Awaited(None),
            place: None,
            turns: 0,
            free_at: u64::MAX,
            held: Vec::new(),
        };
        Arc::new(Self { claims, begun, state: Mutex::new(state) })
    }

    /// Joins the queue of one claim, unless it is full or the wait would be too long.
    pub(super) fn join(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        Delay { position, at, lag, degraded }: Delay,
        begun: &Begun,
    ) -> Result<(), (usize, Rejection)> {
        let Claim { core, permits, wait, .. } = &self.claims[position];
        // The cost of a waiting request has been compared with the capacity.
        let permits = u32::try_from(*permits).unwrap_or(u32::MAX);
        let rule = core.rule(limits);
        let numbers = rule.numbers.as_ref();
        let numbers = numbers.map_err(|why| (position, core.not_configured(why)))?;
        let room = numbers.effective.set.max_waiters();
        let (now, until) = (limits.clock.now_ms(), until(*wait, self.begun.at));
        let number = self.begun.arrival;
        if let Some(until) = until {
            // A caller from another queue has its turn before those that arrived later. Any other arrived with them, and
            // would delay one that was already found to be in time.
            let before = if self.state().turns > 0 { number } else { u64::MAX };
            let earliest = core.earliest(limits, permits, now, Some(before));
            let late = lag.max(core.queue.waiting().line().lag());
            if now.saturating_add(earliest) > until.saturating_add(late) {
                return Err((position, core.not_before(limits, Reason::WaitTooLong, earliest)));
            }
        }
        // A reservation is made immediately; any other request is made when it can be granted.
        let (reserves, later) =
            (core.pace(limits).is_some(), Due::of_reply(limits, at, lag, degraded));
        let mut state = self.state();
        if matches!(state.answer, Answer::Over) {
            return Ok(());
        }
        let joined = core.queue.change(|line| {
            let full = line.len() >= room as usize;
            let (seat, alone) = (Arc::clone(self), self.takes_singly(state.turns + 1));
            // The line is locked here: any later change affects this caller too.
            let at_once = reserves || begun.is_stale(limits, &self.claims);
            let due = if at_once { Due::at(now, lag) } else { later };
            let place = Place { number, permits, until, alone, seat };
            (!full).then(|| line.join(place, due, begun.generation))
        });
        if joined.is_none() {
            let empty = core.queue.is_empty();
            let after = if empty { at.saturating_sub(now).max(1) } else { core.queue.head_in(now) };
            return Err((position, core.not_before(limits, Reason::QueueFull, after)));
        }
        // From now on every call sees the queue.
        core.withdraw(limits);
        state.place = Some((position, number));
        (state.turns, state.free_at) = (state.turns + 1, u64::MAX);
        let waker = match &mut state.answer {
            Answer::Awaited(waker) => waker.take(),
            Answer::There(_) | Answer::Over => None,
        };
        drop(state);
        // A caller that another queue moved here starts the driver of this one, if it has none.
        waker.into_iter().for_each(Waker::wake);
        core.queue.waiting().changed.notify_waiters();
        Ok(())
    }

    /// Returns whether permits that another limiter of the call has reserved for later callers are canceled for it.
    pub(super) fn overtakes(&self, asking: &Arc<Core>, position: usize) -> bool {
        let core = &self.claims[position].core;
        let moves = !Arc::ptr_eq(core, asking) && self.state().turns <= self.claims.len();
        moves && core.queue.waiting().line().reserves_for_later(self.begun.arrival)
    }

    /// Moves to the queue of the claim that delays the call, or of the next one that it takes from; if it waits for no
    /// other, it is admitted. Otherwise rejects the call, and returns what it had.
    #[must_use]
    pub(super) fn move_on(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        delay: Option<Delay>,
        begun: &Begun,
    ) -> Vec<Received> {
        let turns = self.state().turns + 1;
        let at = limits.clock.now_ms();
        let next = || {
            let position = self.next(limits, at)?;
            Some(Delay { position, at, lag: 0, degraded: false })
        };
        let Some(delay) = delay.filter(|_| !self.takes_singly(turns)).or_else(next) else {
            return self.admit();
        };
        match self.join(limits, delay, begun) {
            Ok(()) => Vec::new(),
            Err(rejected) => self.reject(rejected),
        }
    }

    /// Returns the next claim to take from, if the call waits for any: first the one at the head of whose queue it is.
    /// If it left that to others, all behind it would leave too, and have permits of another limiter for as long as this
    /// one makes them wait. Leaky buckets are last: their slots space the calls only if they are used at once.
    fn next(&self, limits: &Services, now: u64) -> Option<usize> {
        let (held, here) = {
            let state = self.state();
            let held: Vec<usize> = state.held.iter().map(|held| held.position).collect();
            (held, state.place.map(|(position, _)| position))
        };
        let open = (0..self.claims.len()).filter(|position| !held.contains(position));
        let order = |position: &usize| {
            let pace = self.claims[*position].core.pace(limits);
            (pace.is_some_and(|pace| pace.spaced), here != Some(*position))
        };
        open.filter(|position| self.waits_for(limits, *position, now)).min_by_key(order)
    }

    /// Returns whether the call may wait for a claim: not if it needs no permits or if its time limit is over.
    fn waits_for(&self, limits: &Services, position: usize, now: u64) -> bool {
        let Claim { core, permits, wait, .. } = &self.claims[position];
        let rule = core.rule(limits);
        let is_counted = match core.ready(limits, &rule, *permits) {
            Ok(Ready::Ask(numbers, _)) => numbers.effective.set.max_waiters() > 0,
            Ok(Ready::Decided(_)) | Err(_) => false,
        };
        let in_time = until(*wait, self.begun.at).is_none_or(|until| now <= until);
        is_counted && in_time && *wait != Wait::None && !rule.is_shadowed()
    }

    /// Records that a query of this time was refused until `at`. Returns whether the call takes from one limiter after
    /// the other from now on: other processes may always be ahead of it at this one.
    pub(super) fn is_overtaken(&self, asked_at: u64, at: u64) -> bool {
        let mut state = self.state();
        if self.takes_singly(state.turns) {
            return false;
        }
        state.turns += usize::from(asked_at >= state.free_at);
        state.free_at = at;
        self.takes_singly(state.turns)
    }

    /// Returns whether the call takes from one limiter after the other, now that it has had so many turns: if
    /// it has been in the queues of all, some other call may always be ahead of it at one of them.
    fn takes_singly(&self, turns: usize) -> bool {
        self.claims.len() == 1 || turns > self.claims.len()
    }

    /// Returns the claims that the queue of a limiter asks for, and the position of the first.
    pub(super) fn asks_for(&self, core: &Arc<Core>) -> (usize, &[Claim]) {
        if self.takes_singly(self.state().turns) {
            let position = self.position(core);
            (position, &self.claims[position..=position])
        } else {
            (0, &self.claims)
        }
    }

    /// Takes what limiters granted, from the one at a position on, and moves on. Returns what no caller will use.
    #[must_use]
    pub(super) fn receive(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        first: usize,
        granted: Vec<Granted>,
        mut slot: Option<Slot<Ticket>>,
    ) -> Vec<Received> {
        let received = (first..).zip(granted);
        let received =
            received.map(|(position, granted)| Received { position, granted, slot: slot.take() });
        let mut state = self.state();
        if !matches!(state.answer, Answer::Awaited(_)) {
            return received.collect();
        }
        state.held.extend(received);
        drop(state);
        self.move_on(limits, None, &self.begun.again(limits, &self.claims))
    }

    /// Gives the caller what it has, unless it has left.
    #[must_use]
    fn admit(&self) -> Vec<Received> {
        let mut state = self.state();
        let held = mem::take(&mut state.held);
        if !matches!(state.answer, Answer::Awaited(_)) {
            return held;
        }
        self.answer(state, Ok(held));
        Vec::new()
    }

    /// Rejects the call, unless the caller has left, and returns what it had.
    #[must_use]
    pub(super) fn reject(&self, rejected: (usize, Rejection)) -> Vec<Received> {
        let mut state = self.state();
        let held = mem::take(&mut state.held);
        if matches!(state.answer, Answer::Awaited(_)) {
            self.answer(state, Err(rejected));
        }
        held
    }

    /// Delivers the answer.
    fn answer(
        &self,
        mut state: MutexGuard<'_, State>,
        result: Result<Vec<Received>, (usize, Rejection)>,
    ) {
        let before = mem::replace(&mut state.answer, Answer::There(result));
        drop(state);
        if let Answer::Awaited(Some(waker)) = before {
            waker.wake();
        }
    }

    /// Returns the position of the claim in whose queue the caller is, which is the queue of this limiter.
    pub(super) fn position(&self, core: &Arc<Core>) -> usize {
        let is_its = |position: &usize| Arc::ptr_eq(&self.claims[*position].core, core);
        let here = self.state().place.map(|(position, _)| position).filter(is_its);
        here.or_else(|| (0..self.claims.len()).find(is_its)).unwrap_or(0)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
