//! A caller's position in a queue, which receives its answer.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use super::{Begun, Delay, Due, Outcome, Place, Slot, Ticket, look_at, until};
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
    /// The limiter in whose queue the caller is, and the number of its position.
    pub(super) place: Option<(Arc<Core>, u64)>,
    /// The number of queues joined so far.
    joined: usize,
}

#[derive(Debug)]
pub(super) enum Answer {
    Awaited(Option<Waker>),
    /// With the reservation that the answer is based on.
    There(Outcome, Option<Box<Slot<Ticket>>>),
    /// The answer was read, or the caller has left.
    Over,
}

impl Chair {
    pub(super) fn new(claims: Vec<Claim>, begun: Begun) -> Arc<Self> {
        let state = State { answer: Answer::Awaited(None), place: None, joined: 0 };
        Arc::new(Self { claims, begun, state: Mutex::new(state) })
    }

    /// Joins the queue of one claim, unless it is full or the wait would be too long.
    pub(super) fn join(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        Delay { position, at, lag, degraded }: Delay,
        begun: &Begun,
    ) -> Result<(), (usize, Rejection)> {
        let Claim { core, wait, .. } = &self.claims[position];
        // The cost of a waiting request has been compared with the capacity.
        let permits = u32::try_from(self.claims[position].permits).unwrap_or(u32::MAX);
        let refused = |rejection: Rejection| (position, rejection);
        let room = core.numbers(limits).map_err(refused)?.effective.set.max_waiters();
        let (now, until) = (limits.clock.now_ms(), until(*wait, self.begun.at));
        let number = self.begun.arrival;
        if let Some(until) = until {
            // A caller from another queue has its turn before those that arrived later. Any other arrived with them, and
            // would delay one that was already found to be in time.
            let before = if self.state().joined > 0 { number } else { u64::MAX };
            let earliest = core.earliest(limits, permits, now, Some(before));
            let late = lag.max(core.queue.waiting().line().lag());
            if now.saturating_add(earliest) > until.saturating_add(late) {
                return Err((position, core.not_before(limits, Reason::WaitTooLong, earliest)));
            }
        }
        // A reservation is made immediately; any other request is made when it can be granted.
        let (reserves, later) = (core.pace(limits).is_some(), Due::at(at, lag));
        let later = later.asked_by(look_at(limits, at, degraded));
        let mut state = self.state();
        if matches!(state.answer, Answer::Over) {
            return Ok(());
        }
        let joined = core.queue.change(|line| {
            let full = line.len() >= room as usize;
            let (seat, alone) = (Arc::clone(self), self.claims.len() == 1);
            // The line is locked here: any later change affects this caller too.
            let at_once = reserves || begun.is_stale(limits, &self.claims);
            let due = if at_once { Due::at(now, lag) } else { later };
            let place = Place { number, permits, until, alone, seat };
            (!full).then(|| {
                line.join(place, due, begun.generation);
                if state.joined > self.claims.len() {
                    line.yielded(number);
                }
            })
        });
        if joined.is_none() {
            let empty = core.queue.is_empty();
            let after = if empty { at.saturating_sub(now).max(1) } else { core.queue.head_in(now) };
            return Err((position, core.not_before(limits, Reason::QueueFull, after)));
        }
        // From now on every call sees the queue.
        core.withdraw(limits);
        state.place = Some((Arc::clone(core), number));
        state.joined += 1;
        let waker = match &mut state.answer {
            Answer::Awaited(waker) => waker.take(),
            Answer::There(..) | Answer::Over => None,
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
        let moves = !Arc::ptr_eq(core, asking) && self.state().joined <= self.claims.len();
        moves && core.queue.waiting().line().reserves_for_later(self.begun.arrival)
    }

    /// Delivers the answer to the caller, or returns it if the caller has left. If the caller never
    /// reads an answer based on a reservation, that passes to another caller.
    pub(super) fn answer(
        &self,
        outcome: Outcome,
        slot: Option<Slot<Ticket>>,
    ) -> Result<(), Outcome> {
        let mut state = self.state();
        let Answer::Awaited(waker) = &mut state.answer else { return Err(outcome) };
        let waker = waker.take();
        state.answer = Answer::There(outcome, slot.map(Box::new));
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Returns the position of a limiter among the claims.
    pub(super) fn position(&self, core: &Arc<Core>) -> usize {
        let same = |claim: &Claim| Arc::ptr_eq(&claim.core, core);
        self.claims.iter().position(same).unwrap_or(0)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
