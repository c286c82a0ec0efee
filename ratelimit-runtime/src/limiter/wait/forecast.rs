//! Computes the earliest time at which a caller at the end of a queue can be admitted. A call that
//! may not wait that long is rejected immediately, and no other is.

use std::sync::Arc;

use super::Core;
use crate::{
    algorithm::State,
    limiter::{per_process::counted_here, services::Services},
    store::{AnyStore, Config, MemoryStore},
};

impl Core {
    /// Returns the milliseconds until a request can be granted behind the waiting callers: if it is to wait, behind those
    /// that arrived `before`, and if not, behind all and what is reserved. If no caller ahead leaves, this
    /// is exact if this process counts the limiter, and otherwise a lower bound.
    pub(in crate::limiter) fn earliest(
        self: &Arc<Self>,
        limits: &Services,
        permits: u32,
        now: u64,
        before: Option<u64>,
    ) -> u64 {
        let (reserved, costs) = {
            let line = self.queue.waiting().line();
            let costs: Vec<u32> = line.costs_before(before.unwrap_or(u64::MAX)).collect();
            if costs.is_empty() {
                return 0;
            }
            let mut slots = line.slots().map(|slot| (slot.at, slot.permits));
            let reserved: Vec<(u64, u32)> = slots.by_ref().take(costs.len()).collect();
            if let (Some(_), Some((at, _))) = (before, slots.next()) {
                // The next slot is its own.
                return at.saturating_sub(now);
            }
            (reserved, costs)
        };
        let after_reserved = costs.get(reserved.len()..).unwrap_or_default();
        let blocked_ms = self.blocked_ms(limits);
        let from = reserved.last().map_or(now, |(at, _)| *at).max(now.saturating_add(blocked_ms));
        let counted = match &limits.store {
            _ if self.is_counted_here(&self.rule(limits)) => Some(&limits.per_client),
            AnyStore::Memory(store) => Some(store),
            AnyStore::Redis(_) => None,
        };
        if let Some(store) = counted {
            return self.simulate(limits, store, after_reserved, permits, from).saturating_sub(now);
        }
        let known = self.known_of_all(limits).unwrap_or_default();
        let ahead = after_reserved.iter().copied().map(u64::from);
        let ahead: u64 = ahead.filter(|permits| can_grant(&known, *permits)).sum();
        let Some((last, cost)) = reserved.last() else {
            let head_in = self.queue.head_in(now).max(blocked_ms);
            let least = self.least_behind(limits, known)(ahead, permits.into());
            return head_in.saturating_add(least.unwrap_or(0));
        };
        let span = |config: &Config| {
            let before = if config.is_spaced() { (*cost).into() } else { u64::from(permits) };
            config.span_ms(ahead + before)
        };
        let span = known.iter().map(span).max().unwrap_or(0);
        last.saturating_sub(now).saturating_add(span).max(blocked_ms)
    }

    /// Returns the minimum time from the turn of the head to that of a caller of some permits behind others, `None` if
    /// the limits can never admit it.
    pub(super) fn least_behind(
        &self,
        limits: &Services,
        known: Vec<Config>,
    ) -> impl Fn(u64, u64) -> Option<u64> + use<> {
        // Another limit or a block may delay the head until the middle of a fixed window.
        let begins = known.len() == 1 && self.blocked_ms(limits) == 0;
        move |ahead, permits| {
            let least = known.iter().map(|config| config.least_ms(ahead, permits, begins));
            least.max().filter(|_| can_grant(&known, permits))
        }
    }

    /// Admits the callers ahead in order, on copies of the states.
    fn simulate(
        self: &Arc<Self>,
        limits: &Services,
        store: &MemoryStore,
        ahead: &[u32],
        permits: u32,
        from: u64,
    ) -> u64 {
        let rule = self.rule(limits);
        let parts = self.parts(&rule);
        let mut copies: Vec<(State, Config)> = parts
            .iter()
            .map(|part| (store.copy(&part.core.keys), counted_here(part.in_force())))
            .collect();
        let costs = ahead.iter().copied().chain([permits]);
        if let (Some(pace), [(state, config)]) = (self.pace(limits), &mut copies[..]) {
            // The queue reserves, so nothing is lost by rounding each wait up to a millisecond.
            let costs: Vec<u32> = costs.filter(|cost| pace.grants(*cost)).collect();
            let bookings = state.reserve(config, &costs, u64::MAX, from);
            let last = bookings.iter().map(|booking| booking.wait).max();
            return from.saturating_add(last.unwrap_or(0));
        }
        let mut at = from;
        for cost in costs {
            let wait = |(state, config): &(State, Config)| {
                let verdict = state.peek(config, cost.into(), at);
                if verdict.granted { 0 } else { verdict.retry_after }
            };
            at = at.saturating_add(copies.iter().map(wait).max().unwrap_or(0));
            for (state, config) in &mut copies {
                state.acquire(config, cost.into(), at);
            }
        }
        at
    }
}

/// Returns whether the limits can ever admit a call of some permits.
fn can_grant(known: &[Config], permits: u64) -> bool {
    known.iter().all(|config| permits <= config.capacity())
}
