//! Limiters that were rejected in consecutive windows. There are few, so they are kept apart from the usage.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ratelimit_spec::Penalty;

use super::MemoryStore;
use crate::{
    algorithm::{Refusals, Refused},
    store::{Reply, Request, StateKeys, Sweep},
};

/// Minimum number of limiters before those whose penalty is over are swept.
const SWEEP_AT: usize = 256;

#[derive(Default)]
pub(super) struct Penalties(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_name: HashMap<Arc<str>, Kept>,
    sweep: Sweep,
}

struct Kept {
    refusals: Refusals,
    penalty: Penalty,
    per_ms: u64,
}

impl Penalties {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a limiter, and returns whether it was known.
    pub(super) fn forget(&self, keys: &StateKeys) -> bool {
        self.known().by_name.remove(keys.config()).is_some()
    }

    /// Drops the limiters whose penalty is over.
    pub(super) fn forget_over(&self, now: u64) {
        self.known().forget_over(now);
    }
}

impl Known {
    fn forget_over(&mut self, now: u64) {
        let is_needed =
            |_: &_, kept: &mut Kept| !kept.refusals.is_over(&kept.penalty, kept.per_ms, now);
        self.sweep.run(&mut self.by_name, is_needed);
    }
}

impl MemoryStore {
    pub(super) fn penalize_now(&self, keys: &StateKeys, penalty: Penalty, per_ms: u64) -> Refused {
        let mut known = self.penalties.known();
        let (now, per_ms) = (self.clock.now_ms(), per_ms.max(1));
        if known.sweep.is_due(known.by_name.len(), SWEEP_AT) {
            known.forget_over(now);
        }
        let new = Kept { refusals: Refusals::default(), penalty, per_ms };
        let kept = known.by_name.entry(Arc::clone(keys.shared())).or_insert(new);
        (kept.penalty, kept.per_ms) = (penalty, per_ms);
        kept.refusals.refused(&penalty, per_ms, now)
    }

    /// Returns for how many milliseconds a penalty blocks a limiter, if one does.
    pub(super) fn blocked_for(&self, request: &Request<'_>) -> Option<u64> {
        let penalty = request.penalty?;
        let known = self.penalties.known();
        let kept = known.by_name.get(request.keys.config())?;
        let left = kept.refusals.blocked_for(penalty, self.clock.now_ms());
        (left > 0).then_some(left)
    }
}

impl Reply {
    /// Returns the reply of a limiter that is blocked for this long, if it is counted here, to a request for
    /// these permits, which are free after `wait_ms`.
    pub(super) fn blocked(self, ms: Option<u64>, permits: u32, wait_ms: u64) -> Self {
        match ms.filter(|_| self.outcome.is_counted()) {
            Some(ms) => self.blocked_for(ms, permits.into(), wait_ms),
            None => self,
        }
    }
}
