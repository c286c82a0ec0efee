//! The state known when a call began.

use std::sync::atomic::{AtomicU64, Ordering};

use ratelimit_spec::Wait;

use crate::limiter::{plan::Claim, services::Services};

/// When a call began, in milliseconds, and the known state of its limiters at that time. If that
/// has changed since, a wait may end early.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) at: u64,
    /// Orders the calls of this process that may wait.
    pub(super) arrival: u64,
    changes: u64,
    pub(super) generation: u64,
}

impl Begun {
    pub(super) fn now(limits: &Services, claims: &[Claim]) -> Self {
        static ARRIVALS: AtomicU64 = AtomicU64::new(0);
        let waits = claims.iter().any(|claim| claim.wait != Wait::None);
        let arrival = if waits { ARRIVALS.fetch_add(1, Ordering::Relaxed) } else { 0 };
        Self::known(limits, claims, arrival)
    }

    /// Returns the state known now, with the same arrival number.
    pub(super) fn again<'a>(
        &self,
        limits: &Services,
        claims: impl IntoIterator<Item = &'a Claim>,
    ) -> Self {
        Self::known(limits, claims, self.arrival)
    }

    fn known<'a>(
        limits: &Services,
        claims: impl IntoIterator<Item = &'a Claim>,
        arrival: u64,
    ) -> Self {
        let (at, changes) = (limits.clock.now_ms(), changes(claims));
        Self { at, arrival, changes, generation: limits.generation() }
    }

    pub(super) fn is_stale(&self, limits: &Services, claims: &[Claim]) -> bool {
        self.generation != limits.generation() || self.changes != changes(claims)
    }
}

/// The number of times that permits of any of the limiters may have become free early.
fn changes<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> u64 {
    claims.into_iter().map(|claim| claim.core.queue.changes()).sum()
}
