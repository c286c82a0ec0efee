//! Previews of requests in the embedded store.

use super::{MemoryStore, state::State};
use crate::{
    algorithm,
    store::{Config, Outcome, Reply, Request, StateKeys},
};

impl MemoryStore {
    pub(super) fn peek_now(&self, request: &Request<'_>, cost: u32) -> Reply {
        let blocked_for = self.blocked_for(request);
        let epoch = self.epoch(request);
        self.view(request.keys, |state, now| {
            // What reconciliation would change is changed in a copy.
            let mut copy = state.map(State::copy).unwrap_or_default();
            let in_force = copy.reconcile(request, epoch, now, &self.configs);
            let Some((config, outcome)) = in_force else { return Reply::unknown(now) };
            let reply = look(Some(&copy), config, cost, blocked_for.is_some(), now);
            // Usage that a process counts is forgotten with a reset.
            let outcome = outcome.reconciled.filter(|_| reply.outcome == Outcome::PerClient);
            let reply = Reply { reconciled: outcome, ..reply };
            reply.blocked(blocked_for, cost, reply.retry_after_ms)
        })
    }

    /// Returns the reply to a request under a configuration that is reconciled elsewhere, without counting.
    pub(crate) fn look(&self, keys: &StateKeys, config: Config, permits: u32) -> Reply {
        self.view(keys, |state, now| look(state, config, permits, false, now))
    }

    /// The same for a limiter of which nothing is used.
    pub(crate) fn look_at_new(&self, config: Config, permits: u32) -> Reply {
        look(None, config, permits, false, self.clock.now_ms())
    }

    /// Returns when the permits of a request that is blocked would be free.
    pub(super) fn wait_blocked(&self, keys: &StateKeys, config: Config, cost: u32) -> u64 {
        self.view(keys, |state, now| look(state, config, cost, true, now)).retry_after_ms
    }
}

fn look(state: Option<&State>, config: Config, permits: u32, blocked: bool, now: u64) -> Reply {
    let empty = algorithm::State::default();
    let used = state.map_or(&empty, |state| &state.used);
    let peek = if blocked { algorithm::State::peek_blocked } else { algorithm::State::peek };
    Reply::decided(permits, config, now, |permits| peek(used, &config, permits, now))
}
