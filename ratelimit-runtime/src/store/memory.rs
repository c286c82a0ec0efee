//! The embedded store: applies the rules to limiters in a table, each under the lock of its part of the table or, if it
//! has holders, under its own.

mod allotment;
mod cell;
mod configs;
mod group;
mod look;
mod name;
mod penalties;
mod reply;
mod reserve;
mod slot;
mod state;
mod table;
mod terms;

use std::{fmt, sync::Arc, time::Duration};

use ratelimit_spec::Penalty;
use tokio::time::Instant;

use self::{
    cell::Cell,
    configs::Configs,
    penalties::Penalties,
    state::{NEVER, State},
    table::Table,
};
pub(crate) use self::{
    slot::Slot,
    terms::{Lease, Rejects, Terms, Whose},
};
use super::{
    Charge, Charged, Config, Decided, Expiry, Grant, Group, KeepState, Outcome, Refused, Reply,
    Request, Reservation, StateKeys, Store, StoredConfig, WriteWhen,
};
use crate::{
    Clock, StoreError,
    algorithm::{
        self, Verdict,
        reconcile::{Change, Epoch, Reconciliation},
    },
    clock,
};

/// A store in this process. It cannot fail, unless a test requests it.
///
/// State that no longer has any effect is dropped when a part of the store has doubled, and, of a program with many
/// limiters, once a minute. A busy limiter holds at most about 115 log entries of 16 bytes.
pub struct MemoryStore {
    clock: Clock,
    anchor: Instant,
    table: Table,
    configs: Configs,
    penalties: Penalties,
    /// The error that every call returns instead of its reply.
    #[cfg(feature = "test-util")]
    failure: arc_swap::ArcSwapOption<StoreError>,
}

/// Nothing is stored, and the process has no configuration of its own.
#[derive(Debug)]
struct UnknownAt(u64);

impl MemoryStore {
    /// Creates an empty store that reads this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            anchor: clock::instant(),
            table: Table::new(),
            configs: Configs::default(),
            penalties: Penalties::default(),
            #[cfg(feature = "test-util")]
            failure: arc_swap::ArcSwapOption::empty(),
        }
    }

    /// Makes every call fail from now on, or none.
    #[cfg(feature = "test-util")]
    pub(crate) fn fail(&self, failure: Option<StoreError>) {
        self.failure.store(failure.map(Arc::new));
    }

    /// Returns the error that a test set for all calls.
    pub(crate) fn health(&self) -> Result<(), StoreError> {
        #[cfg(feature = "test-util")]
        if let Some(error) = self.failure.load().as_deref() {
            return Err(error.clone());
        }
        Ok(())
    }

    /// Returns the slot of a limiter, so that later calls need not look up its name.
    pub(crate) fn slot(&self, keys: &StateKeys) -> Arc<Slot> {
        self.table.with_or_new(keys.shared(), || self.clock.now_ms(), Cell::hold)
    }

    /// Calls a function with the cell of a limiter, if it exists. The name is passed in two parts.
    #[inline]
    pub(crate) fn with<T>(
        &self,
        name: (&str, &str),
        ask: impl FnOnce(Option<&mut Cell>) -> T,
    ) -> T {
        self.table.with(name, ask)
    }

    /// Returns the slot of a limiter if this rule may count in it without reconciling.
    pub(crate) fn leased(&self, keys: &StateKeys, rule: u64) -> Option<Arc<Slot>> {
        self.table.with(("", keys.config()), |cell| {
            let cell = cell?;
            cell.enter(&self.clock, |state, _| state.is_leased(rule)).then(|| cell.hold())
        })
    }

    /// Takes the first permits of a limiter, which this lease counts from now on. Returns `None` if the
    /// limiter exists.
    pub(crate) fn begin(
        &self,
        request: &Request<'_>,
        permits: u32,
        lease: impl FnOnce(u64) -> Lease,
    ) -> Option<(Reply, Rejects)> {
        self.change(request.keys, |state, now| {
            if !state.is_new() {
                return None;
            }
            let (config, outcome) =
                state.reconcile(request, self.epoch(request), now, &self.configs)?;
            let lease = state.lease.insert(lease(now));
            let rejects = lease.terms.rejects;
            Some((state.count(config, permits, now).after(outcome), rejects))
        })
    }

    /// Drops the limiters of one shard that are equivalent to new ones, and with the first shard the penalties that are
    /// over.
    pub(crate) fn forget_idle(&self, shard: usize) {
        let now = self.clock.now_ms();
        self.table.sweep(shard, now);
        if shard == 0 {
            self.penalties.forget_over(now);
        }
    }

    /// Changes a limiter's state.
    fn change<T>(&self, keys: &StateKeys, change: impl FnOnce(&mut State, u64) -> T) -> T {
        let change = |cell: &mut Cell| cell.enter(&self.clock, change);
        self.table.with_or_new(keys.shared(), || self.clock.now_ms(), change)
    }

    /// Reads a limiter's state, if it has any.
    fn view<T>(&self, keys: &StateKeys, view: impl FnOnce(Option<&State>, u64) -> T) -> T {
        self.table.with(("", keys.config()), |cell| match cell {
            Some(cell) => cell.enter(&self.clock, |state, now| view(Some(state), now)),
            None => view(None, self.clock.now_ms()),
        })
    }

    fn epoch(&self, request: &Request<'_>) -> Epoch {
        Epoch { revision: request.revision, since: self.since_us(request.since) }
    }

    /// Microseconds since the store was created: the clock of epochs and changes.
    fn since_us(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.anchor).as_micros();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Like `reconciled`, for a single reply.
    fn replied(
        &self,
        request: &Request<'_>,
        reply: impl FnOnce(&mut algorithm::State, Config, u64) -> (Reply, bool),
    ) -> Reply {
        match self.reconciled(request, reply) {
            Ok((reply, outcome)) => reply.after(outcome),
            Err(UnknownAt(now)) => Reply::unknown(now),
        }
    }

    /// Reconciles the configuration, and returns what was decided with it and the outcome of reconciliation.
    /// The function also returns whether its decision renews the keep-alive.
    fn reconciled<T>(
        &self,
        request: &Request<'_>,
        decide: impl FnOnce(&mut algorithm::State, Config, u64) -> (T, bool),
    ) -> Result<(T, Reconciliation), UnknownAt> {
        let epoch = self.epoch(request);
        self.change(request.keys, |state, now| {
            let in_force = state.reconcile(request, epoch, now, &self.configs);
            let (config, outcome) = in_force.ok_or(UnknownAt(now))?;
            let (decided, renews) = decide(&mut state.used, config, now);
            if renews {
                state.keep_alive(config, now);
            }
            Ok((decided, outcome))
        })
    }

    /// Returns a copy of a limiter's usage.
    pub(crate) fn copy(&self, keys: &StateKeys) -> algorithm::State {
        self.view(keys, |state, _| state.map(|state| state.used.clone()).unwrap_or_default())
    }

    /// Replaces a limiter's usage.
    pub(crate) fn put(&self, keys: &StateKeys, used: algorithm::State, config: Config) {
        self.change(keys, |state, now| {
            *state = State::default();
            state.used = used;
            state.used.keep_for(&config);
            state.keep_alive(config, now);
        });
    }

    /// Releases permits that were counted under this configuration.
    pub(crate) fn uncount(&self, keys: &StateKeys, config: Config, permits: u32) -> u64 {
        self.change(keys, |state, now| state.used.release(&config, permits.into(), now))
    }

    /// Sets or clears the expiry of what was counted, and returns it. Without an expiry, it is kept at least
    /// until it is free again.
    pub(crate) fn forget_after(&self, keys: &StateKeys, ms: Option<u64>) -> Option<u64> {
        self.change(keys, |state, now| {
            state.withdraw();
            let expires_ms = ms.map(|ms| now.saturating_add(ms));
            state.expires_ms = expires_ms.unwrap_or(NEVER);
            expires_ms
        })
    }

    /// Discards what was counted.
    pub(crate) fn forget(&self, keys: &StateKeys) {
        self.change(keys, |state, _| *state = State::default());
    }

    /// Ends leases, so that no call [counts](Slot::take) here without reconciling first.
    pub(crate) fn withdraw(&self, keys: &StateKeys) {
        self.change(keys, |state, _| state.withdraw());
    }

    /// Keeps what this configuration counts for as long as it does, and [ends leases](Self::withdraw).
    pub(crate) fn keep_for(&self, keys: &StateKeys, config: &Config) {
        self.change(keys, |state, now| {
            state.used.trim(config, now);
            state.used.keep_for(config);
            state.withdraw();
        });
    }
}

impl Store for MemoryStore {
    async fn decide(&self, groups: &[Group<'_>]) -> Result<Decided, StoreError> {
        let decide = |group: &Group<'_>| group.check().map(|()| self.decide_group(group));
        Ok(groups.iter().map(decide).collect())
    }

    async fn reserve(
        &self,
        request: &Request<'_>,
        costs: &[u32],
        within_ms: u64,
    ) -> Result<Vec<Reservation>, StoreError> {
        Ok(if costs.is_empty() { Vec::new() } else { self.reserve_now(request, costs, within_ms) })
    }

    async fn give_back(&self, keys: &StateKeys, grant: &Grant) -> Result<u64, StoreError> {
        Ok(self.change(keys, |state, now| match &state.stored {
            Some(stored) => state.used.give_back(stored.config(), grant, now),
            None => 0,
        }))
    }

    async fn charge(
        &self,
        request: &Request<'_>,
        charge: Charge,
    ) -> Result<(Reply, Charged), StoreError> {
        Ok(self.charge_now(request, charge))
    }

    async fn peek(&self, request: &Request<'_>, cost: u32) -> Result<Reply, StoreError> {
        Ok(self.peek_now(request, cost))
    }

    async fn assert(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        // The process counts what it grants, so each announcement renews the keep-alive.
        Ok(self.replied(request, |_, config, now| {
            let reply = Reply::decided(1, config, now, |_| Verdict::default());
            (Reply { outcome: Outcome::Granted, remaining: config.rate, ..reply }, true)
        }))
    }

    async fn release(&self, keys: &StateKeys, permits: u32) -> Result<u64, StoreError> {
        Ok(self.change(keys, |state, now| match &state.stored {
            Some(stored) => state.used.release(stored.config(), permits.into(), now),
            None => 0,
        }))
    }

    async fn penalize(
        &self,
        keys: &StateKeys,
        penalty: &Penalty,
        per_ms: u64,
    ) -> Result<Refused, StoreError> {
        Ok(self.penalize_now(keys, *penalty, per_ms))
    }

    async fn lift(&self, keys: &StateKeys) -> Result<bool, StoreError> {
        Ok(self.penalties.forget(keys))
    }

    async fn write(
        &self,
        keys: &StateKeys,
        config: Config,
        when: WriteWhen,
        keep: KeepState,
        hold_ms: u64,
    ) -> Result<bool, StoreError> {
        let made_us = self.since_us(clock::instant());
        Ok(self.change(keys, |state, now| {
            match (when, &state.stored) {
                (WriteWhen::Absent, Some(_)) | (WriteWhen::Present, None) => return false,
                _ => {}
            }
            let stored = state.stored.as_ref().filter(|stored| stored.config().mode == config.mode);
            match stored {
                Some(stored) if keep == KeepState::Keep => state.used.pay(stored.config(), now),
                _ => state.used = algorithm::State::default(),
            }
            state.used.trim(&config, now);
            let held_until_ms = if hold_ms > 0 { now.saturating_add(hold_ms) } else { 0 };
            state.write(config, Change { made_us, made_ms: now, held_until_ms }, now);
            state.withdraw();
            true
        }))
    }

    async fn read(&self, keys: &StateKeys) -> Result<Option<StoredConfig>, StoreError> {
        Ok(self.view(keys, |state, now| {
            let stored = state.and_then(|state| state.stored.as_ref())?;
            Some(StoredConfig { config: *stored.config(), held_for_ms: stored.held_for_ms(now) })
        }))
    }

    async fn delete(&self, keys: &StateKeys) -> Result<bool, StoreError> {
        let had_penalty = self.penalties.forget(keys);
        let was_stored = self.change(keys, |state, _| std::mem::take(state).stored.is_some());
        Ok(was_stored || had_penalty)
    }

    async fn expire(&self, keys: &StateKeys, expiry: Expiry) -> Result<bool, StoreError> {
        Ok(self.change(keys, |state, now| {
            let Some(stored) = &mut state.stored else { return false };
            let before = state.expires_ms;
            state.expires_ms = match expiry {
                Expiry::At(ms) => now.saturating_add(ms),
                Expiry::Cleared => NEVER,
                Expiry::Idle(ms) => {
                    stored.set_keep_alive(ms);
                    if ms > 0 { now.saturating_add(ms) } else { NEVER }
                }
            };
            state.withdraw();
            expiry != Expiry::Cleared || before != NEVER
        }))
    }

    async fn ttl(&self, keys: &StateKeys) -> Result<Option<Duration>, StoreError> {
        let left = self.view(keys, |state, now| {
            let expires = state.filter(|state| state.stored.is_some())?.expires_ms;
            (expires != NEVER).then(|| expires - now)
        });
        Ok(left.map(Duration::from_millis))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("clock", &self.clock).finish_non_exhaustive()
    }
}
