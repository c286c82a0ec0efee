//! What was known when a call began.

use crate::limiter::{plan::Claim, services::Services};

/// When a call began, in milliseconds, and what was known of its limiters then. If that has changed
/// since, a wait may be over before its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) at: u64,
    changes: u64,
    generation: u64,
}

impl Begun {
    pub(super) fn now<'a>(limits: &Services, claims: impl IntoIterator<Item = &'a Claim>) -> Self {
        let (at, changes) = (limits.clock.now_ms(), changes(claims));
        Self { at, changes, generation: limits.generation() }
    }

    pub(super) fn is_stale<'a>(
        &self,
        limits: &Services,
        claims: impl IntoIterator<Item = &'a Claim>,
    ) -> bool {
        self.generation != limits.generation() || self.changes != changes(claims)
    }
}

/// How often something may have become free before its time, of all limiters.
fn changes<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> u64 {
    claims.into_iter().map(|claim| claim.core.queue.changes()).sum()
}
