//! The state of one limiter in the embedded store, under a lock of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ratelimit_spec::Mode;

use super::{allotment::Allotment, configs::Configs, name::Name};
use crate::{
    Clock,
    algorithm::{
        self, Left, Spent,
        reconcile::{Change, Epoch, Reconciled, Reconciliation, Stored, reconcile},
    },
    store::{Assertion, Config, Outcome, Reply, Request},
};

/// The configuration and the usage of one limiter. All its holders share one state.
///
/// In this order in memory: a look-up compares the name, and usually counts next.
#[repr(C)]
pub(crate) struct Slot {
    name: Name,
    allotment: Allotment,
    state: Mutex<State>,
}

/// In this order in memory: what counting needs comes first.
#[repr(C)]
pub(super) struct State {
    pub(super) lease: Option<Lease>,
    /// When the state expires, as if it had never existed, or [`NEVER`].
    pub(super) expires_ms: u64,
    pub(super) used: algorithm::State,
    pub(super) stored: Option<Stored>,
}

/// A word instead of the two of an `Option`, since there is one for each key.
pub(super) const NEVER: u64 = u64::MAX;

impl Default for State {
    fn default() -> Self {
        let used = algorithm::State::default();
        Self { lease: None, expires_ms: NEVER, used, stored: None }
    }
}

/// A lease to count in this slot without reconciling again, until it expires.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) terms: Arc<Terms>,
    /// When the configuration is reconciled again.
    pub(crate) until_ms: u64,
}

/// A configuration to count by, shared by all limiters that use it.
#[derive(Debug)]
pub(crate) struct Terms {
    /// The rule that the configuration belongs to; see [`Rule`](crate::limiter).
    rule: u64,
    /// The number of the limiter's family.
    family: u32,
    /// The generation of the limits.
    generation: u64,
    config: Config,
    /// Whether the configuration is this process's own, so that the store may treat it as announced again.
    announces: bool,
    pub(super) rejects: Rejects,
    /// Milliseconds that a limiter is kept after a grant that left nothing owed; `None` is forever.
    idle_ms: Option<u64>,
}

/// Whether a call is rejected at once if its permits are not free: no call waits, and shadow mode admits none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rejects {
    pub(crate) calls: bool,
    /// The same for requests to a layer.
    pub(crate) requests: bool,
}

impl Terms {
    pub(crate) fn new(
        (rule, family): (u64, u32),
        generation: u64,
        config: Config,
        announces: bool,
        rejects: Rejects,
    ) -> Self {
        let kept = (config.keep_alive_ms > 0).then_some(config.keep_alive_ms);
        let idle_ms = kept.map(|kept| kept.max(config.counts_for_ms()));
        Self { rule, family, generation, config, announces, rejects, idle_ms }
    }

    /// Returns whether this is the given configuration of this family.
    pub(crate) fn is(&self, family: u32, config: &Config) -> bool {
        self.family == family && self.config == *config
    }
}

/// The configuration that a caller uses: that of its rule, or the one that the limiter was last counted with
/// if that is of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Rule(u64),
    Family(u32),
}

impl Whose {
    /// Returns a value that differs for other callers, and for other generations of the limits.
    #[inline]
    fn allotted(self, generation: u64) -> u64 {
        let whose = match self {
            Self::Rule(rule) => rule << 1,
            Self::Family(family) => u64::from(family) << 1 | 1,
        };
        whose ^ generation << 40
    }
}

impl Slot {
    pub(super) fn new(name: &Arc<str>) -> Self {
        let (name, allotment) = (Name::new(name), Allotment::default());
        Self { name, allotment, state: Mutex::default() }
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
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
            let counted = state.spend(taken, at, |_, _, _| ());
            debug_assert!(counted.is_some(), "permits were allotted that were not free");
        }
    }

    /// Takes permits if a valid lease is held: returns what is left of permits that were free, or else the reply.
    #[inline]
    pub(crate) fn take(
        &self,
        clock: &Clock,
        whose: Whose,
        generation: u64,
        permits: u32,
    ) -> Option<Result<Spent, (Reply, Rejects)>> {
        let mut state = self.lock();
        let now = clock.now_ms();
        state.may_count(whose, generation, now)?;
        let spent = |used: &algorithm::State, left, config: &_| used.spent(left, config, now);
        let spent = state.spend(permits, now, spent);
        if let Some(spent) = spent {
            return Some(Ok(spent));
        }
        let Terms { config, rejects, .. } = *state.lease.as_ref()?.terms;
        Some(Err((state.count(config, permits, now), rejects)))
    }

    /// Takes permits if a valid lease is held and they are free, and returns whether little is left.
    #[inline]
    pub(crate) fn spend(
        &self,
        clock: &Clock,
        whose: Whose,
        generation: u64,
        permits: u32,
    ) -> Option<bool> {
        let caller = whose.allotted(generation);
        if self.allotment.take(caller, permits, || clock.now_ms()) {
            return Some(false);
        }
        let mut state = self.lock();
        let now = clock.now_ms();
        state.may_count(whose, generation, now)?;
        state.spend(permits, now, |_, left, config| {
            self.allotment.begin(caller, now, permits, || left.far_from_limit(config));
            left.is_near_limit(config)
        })
    }

    /// Lets the holder of the lease count without reconciling, unless another configuration or a
    /// change from outside is stored, or callers wait: no caller overtakes them.
    pub(crate) fn admit(&self, lease: Lease, nobody_waits: impl FnOnce() -> bool) {
        let mut state = self.lock();
        if !nobody_waits() {
            return;
        }
        let fits =
            |stored: &Stored| !stored.is_from_outside() && *stored.config() == lease.terms.config;
        if state.stored.as_ref().is_none_or(fits) {
            state.lease = Some(lease);
        }
    }
}

impl Slot {
    /// Returns whether a lease of this rule is held.
    pub(crate) fn is_leased(&self, rule: u64) -> bool {
        self.lock().lease.as_ref().is_some_and(|lease| lease.terms.rule == rule)
    }
}

impl State {
    /// Reconciles the configuration, and returns the active one and the outcome; `None` if there is none.
    pub(super) fn reconcile(
        &mut self,
        request: &Request<'_>,
        epoch: Epoch,
        now: u64,
        known: &Configs,
    ) -> Option<(Config, Reconciliation)> {
        if matches!(request.assertion, Assertion::Follow { .. }) && self.stored.is_none() {
            return None;
        }
        let kept_ms = self.keep_alive_ms();
        let (mut stored, outcome) =
            reconcile(self.stored.take(), request.config, epoch, request.assertion, now);
        if outcome.reconciled.is_some() {
            stored.shared = known.shared(stored.shared);
        }
        let config = *stored.config();
        self.stored = Some(stored);
        if outcome.reconciled == Some(Reconciled::Reset) || config.mode != Mode::Overall {
            self.used = algorithm::State::default();
        }
        if outcome.reconciled.is_some() {
            self.withdraw();
        }
        let written = matches!(
            outcome.reconciled,
            Some(Reconciled::Created | Reconciled::Reset | Reconciled::Carried)
        );
        if written || config.keep_alive_ms != kept_ms {
            self.end_keep_alive(kept_ms > 0);
            self.keep_alive(config, now);
        }
        self.used.keep_for(&config);
        Some((config, outcome))
    }

    /// Sets the stored configuration explicitly.
    pub(super) fn write(&mut self, config: Config, change: Change, now: u64) {
        let kept = self.keep_alive_ms() > 0;
        self.stored = Some(Stored::written(config, change, self.stored.take(), now));
        self.end_keep_alive(kept);
        self.keep_alive(config, now);
    }

    fn keep_alive_ms(&self) -> u64 {
        self.stored.as_ref().map_or(0, |stored| stored.config().keep_alive_ms)
    }

    /// Clears the expiry of a keep-alive, if the state was `kept` alive before and is not now.
    fn end_keep_alive(&mut self, kept: bool) {
        if kept && self.keep_alive_ms() == 0 {
            self.expires_ms = NEVER;
        }
    }

    /// Returns the configuration to count with, if a valid lease is held.
    #[inline]
    fn may_count(&mut self, whose: Whose, generation: u64, now: u64) -> Option<&Terms> {
        let Lease { terms, until_ms } = self.lease.as_mut()?;
        let same = match whose {
            Whose::Rule(rule) => terms.rule == rule,
            Whose::Family(family) => terms.family == family,
        };
        let expired = self.expires_ms <= now;
        if !same || terms.generation != generation || expired || terms.config.mode != Mode::Overall
        {
            return None;
        }
        if now >= *until_ms {
            let stored = self.stored.as_mut().filter(|_| terms.announces)?;
            *until_ms = stored.renewed(&terms.config, now)?;
        }
        Some(terms)
    }

    /// Returns whether nothing is stored, and no lease is held.
    pub(super) fn is_new(&self) -> bool {
        self.stored.is_none() && self.lease.is_none()
    }

    /// Takes permits of the lease, if they are free and counting is all that is needed.
    #[inline]
    fn spend<T>(
        &mut self,
        permits: u32,
        now: u64,
        spent: impl FnOnce(&algorithm::State, Left, &Config) -> T,
    ) -> Option<T> {
        let Terms { config, idle_ms, .. } = &*self.lease.as_ref()?.terms;
        let spent = |used: &_, left| spent(used, left, config);
        let spent = self.used.spend(config, permits.into(), now, spent)?;
        if let Some(idle_ms) = idle_ms {
            self.expires_ms = now.saturating_add(*idle_ms);
        }
        Some(spent)
    }

    /// Takes permits under this configuration.
    pub(super) fn count(&mut self, config: Config, permits: u32, now: u64) -> Reply {
        let used = &mut self.used;
        let reply =
            Reply::decided(permits, config, now, |permits| used.acquire(&config, permits, now));
        if reply.outcome == Outcome::Granted {
            self.keep_alive(config, now);
        }
        reply
    }

    /// Renews the keep-alive: after a grant, or with a new configuration. What grants nothing leaves the
    /// expiry as it is.
    pub(super) fn keep_alive(&mut self, config: Config, now: u64) {
        if config.keep_alive_ms > 0 {
            // At least until the permits in use are free again.
            let used = self.used.lasts_ms(&config, now).saturating_add(1);
            let idle = config.keep_alive_ms.max(config.counts_for_ms()).max(used);
            self.expires_ms = now.saturating_add(idle);
        }
    }

    /// Ends every lease, because the configuration changes.
    pub(super) fn withdraw(&mut self) {
        self.lease = None;
    }

    pub(super) fn end_if_expired(&mut self, now: u64) {
        if self.is_expired(now) {
            *self = Self::default();
        }
    }

    pub(super) fn is_expired(&self, now: u64) -> bool {
        self.expires_ms <= now
    }

    /// Returns whether it is equivalent to a new one: nothing is used, and the next caller writes the same
    /// configuration. A slot with a lease is kept: it was in use a moment ago, and creating it again costs
    /// the next caller many times a look-up.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        let outside = self.stored.as_ref().is_some_and(Stored::is_from_outside);
        let leased = self.lease.as_ref().is_some_and(|lease| now < lease.until_ms);
        self.is_expired(now) || (!outside && !leased && self.used.is_idle(now))
    }
}

#[cfg(test)]
mod tests;
