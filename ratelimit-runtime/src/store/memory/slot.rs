//! The state of one limiter that has holders, under a lock of its own.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    allotment::Allotment,
    state::State,
    terms::{Lease, Rejects, Whose},
};
use crate::{Clock, algorithm::Spent, store::Reply};

/// The configuration and the usage of one limiter, shared by all its holders.
#[repr(C)]
pub(crate) struct Slot {
    allotment: Allotment,
    state: Mutex<State>,
}

impl Slot {
    pub(super) fn new(state: State) -> Self {
        Self { allotment: Allotment::default(), state: Mutex::new(state) }
    }

    /// Returns the current state, and the time: read under the lock, so that it never runs backwards within a limiter.
    pub(super) fn enter(&self, clock: &Clock) -> (MutexGuard<'_, State>, u64) {
        let mut state = self.lock();
        let now = clock.now_ms();
        state.end_if_expired(now);
        (state, now)
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.allotment.is_open() {
            self.end_allotment(&mut state);
        }
        state
    }

    /// Counts the permits that were taken of an allotment. Separate, because most states have none.
    #[inline(never)]
    fn end_allotment(&self, state: &mut State) {
        let (taken, at) = self.allotment.end();
        if taken > 0 {
            let counted = state.count_spent(taken, at, false, |_, _, _| ());
            debug_assert!(counted.is_some(), "permits were allotted that were not free");
        }
    }

    /// [Takes](State::take) permits.
    #[inline]
    pub(crate) fn take(
        &self,
        clock: &Clock,
        whose: Whose,
        permits: u32,
    ) -> Option<Result<Spent, (Reply, Rejects)>> {
        let mut state = self.lock();
        state.take(clock.now_ms(), whose, permits)
    }

    /// [Spends](State::spend) permits: those of an allotment without the lock.
    pub(crate) fn spend(&self, clock: &Clock, whose: Whose, permits: u32) -> Option<bool> {
        // Usually none are allotted, and the time is only read under the lock.
        if self.allots() && self.spend_allotted(clock.now_ms(), whose, permits.into()) {
            return Some(false);
        }
        let mut state = self.lock();
        let now = clock.now_ms();
        state.spend(now, whose, permits, |left, config| {
            self.allotment.begin(whose, now, permits, || left.far_from_limit(config));
        })
    }

    /// Returns whether permits are allotted.
    #[inline(always)]
    pub(crate) fn allots(&self) -> bool {
        self.allotment.is_open()
    }

    /// Takes permits of an allotment, at this time.
    #[inline(always)]
    pub(crate) fn spend_allotted(&self, now: u64, whose: Whose, permits: u64) -> bool {
        permits > 0 && self.allotment.take(now, whose, permits)
    }

    /// [Admits](State::admit) the holder of a lease, unless callers wait: no caller overtakes them.
    pub(crate) fn admit(&self, lease: Lease, nobody_waits: impl FnOnce() -> bool) {
        let mut state = self.lock();
        if nobody_waits() {
            state.admit(lease);
        }
    }
}

#[cfg(test)]
mod tests;
