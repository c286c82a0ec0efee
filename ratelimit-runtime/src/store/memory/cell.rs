//! The state of one limiter in the table.

use std::{mem, sync::Arc};

use super::{
    slot::Slot,
    state::State,
    terms::{Rejects, Whose},
};
use crate::{Clock, algorithm::Spent, store::Reply};

/// The state is in the table itself, which a look-up reads anyway, until the limiter has a holder.
pub(crate) enum Cell {
    Free(State),
    Held(Arc<Slot>),
}

impl Cell {
    pub(super) fn new() -> Self {
        Self::Free(State::default())
    }

    /// Returns the slot, for a holder that does not look up the limiter each time.
    pub(super) fn hold(&mut self) -> Arc<Slot> {
        match self {
            Self::Held(slot) => Arc::clone(slot),
            Self::Free(state) => {
                let slot = Arc::new(Slot::new(mem::take(state)));
                *self = Self::Held(Arc::clone(&slot));
                slot
            }
        }
    }

    /// Returns whether it is still needed: it is held, or not equivalent to a new one. Takes the state back
    /// from a slot without holders.
    pub(super) fn is_needed(&mut self, now: u64) -> bool {
        match self {
            Self::Held(slot) if Arc::strong_count(slot) > 1 => return true,
            Self::Held(slot) => {
                let state = mem::take(&mut *slot.lock());
                *self = Self::Free(state);
            }
            Self::Free(_) => {}
        }
        matches!(self, Self::Free(state) if !state.is_idle(now))
    }

    /// Calls a function with the current state, and the time.
    pub(super) fn enter<T>(&mut self, clock: &Clock, run: impl FnOnce(&mut State, u64) -> T) -> T {
        match self {
            Self::Free(state) => {
                let now = clock.now_ms();
                state.end_if_expired(now);
                run(state, now)
            }
            Self::Held(slot) => {
                let (mut state, now) = slot.enter(clock);
                run(&mut state, now)
            }
        }
    }

    /// [Takes](State::take) permits.
    #[inline]
    pub(crate) fn take(
        &mut self,
        clock: &Clock,
        whose: Whose,
        permits: u32,
    ) -> Option<Result<Spent, (Reply, Rejects)>> {
        match self {
            Self::Free(state) => state.take(clock.now_ms(), whose, permits),
            Self::Held(slot) => slot.take(clock, whose, permits),
        }
    }

    /// [Spends](State::spend) permits.
    #[inline]
    pub(crate) fn spend(&mut self, clock: &Clock, whose: Whose, permits: u32) -> Option<bool> {
        match self {
            Self::Free(state) => state.spend(clock.now_ms(), whose, permits, |_, _| ()),
            Self::Held(slot) => slot.spend(clock, whose, permits),
        }
    }
}

#[cfg(test)]
mod tests;
