//! The configuration and the usage of one limiter.

use ratelimit_spec::Mode;

use super::{
    configs::Configs,
    terms::{Lease, Rejects, Terms, Whose},
};
use crate::{
    algorithm::{
        self, Left, Spent,
        reconcile::{Change, Epoch, Reconciled, Reconciliation, Stored, reconcile},
    },
    store::{Assertion, Config, Outcome, Reply, Request},
};

/// In this order in memory: what counting needs comes first.
#[repr(C)]
pub(crate) struct State {
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

impl State {
    /// Returns the same configuration and usage, without a lease.
    pub(super) fn copy(&self) -> Self {
        let Self { lease: _, expires_ms, used, stored } = self;
        Self { lease: None, expires_ms: *expires_ms, used: used.clone(), stored: stored.clone() }
    }

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
        } else if let Some(replaced) = &outcome.replaced {
            self.used.pay(replaced, now);
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
    fn may_count(&mut self, whose: Whose, now: u64) -> Option<&Terms> {
        let Lease { terms, until_ms } = self.lease.as_mut()?;
        if !terms.allow(whose) || self.expires_ms <= now {
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

    /// Takes permits if a valid lease is held: returns what is left of permits that were free, or else the reply.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        now: u64,
        whose: Whose,
        permits: u32,
    ) -> Option<Result<Spent, (Reply, Rejects)>> {
        self.may_count(whose, now)?;
        let spent = |used: &algorithm::State, left, config: &_| used.spent(left, config, now);
        let spent = self.count_spent(permits, now, true, spent);
        if let Some(spent) = spent {
            return Some(Ok(spent));
        }
        let Terms { config, rejects, .. } = *self.lease.as_ref()?.terms;
        Some(Err((self.count(config, permits, now), rejects)))
    }

    /// Takes permits if a valid lease is held and they are free, calls a function with what is left, and returns
    /// whether that is little.
    #[inline(always)]
    pub(super) fn spend(
        &mut self,
        now: u64,
        whose: Whose,
        permits: u32,
        then: impl FnOnce(Left, &Config),
    ) -> Option<bool> {
        self.may_count(whose, now)?;
        self.count_spent(permits, now, false, |_, left, config| {
            then(left, config);
            left.is_near_limit(config)
        })
    }

    /// Lets the holder of the lease count without reconciling, unless another configuration or a
    /// change from outside is stored.
    pub(super) fn admit(&mut self, lease: Lease) {
        let fits =
            |stored: &Stored| !stored.is_from_outside() && *stored.config() == lease.terms.config;
        if self.stored.as_ref().is_none_or(fits) {
            self.lease = Some(lease);
        }
    }

    /// Returns whether a lease of this rule is held.
    pub(super) fn is_leased(&self, rule: u64) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.terms.rule == rule)
    }

    /// Takes permits of the lease, if they are free and counting is all that is needed.
    #[inline(always)]
    pub(super) fn count_spent<T>(
        &mut self,
        permits: u32,
        now: u64,
        exact: bool,
        spent: impl FnOnce(&algorithm::State, Left, &Config) -> T,
    ) -> Option<T> {
        let Terms { config, idle_ms, .. } = &*self.lease.as_ref()?.terms;
        let spent = |used: &_, left| spent(used, left, config);
        let spent = self.used.spend(config, permits.into(), now, exact, spent)?;
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
    /// the next caller many times a look-up. What is counted elsewhere is kept until it expires.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        let outside = self.stored.as_ref().is_some_and(Stored::is_from_outside);
        let leased = self.lease.as_ref().is_some_and(|lease| now < lease.until_ms);
        self.is_expired(now)
            || (!outside && !leased && !self.is_counted_elsewhere() && self.used.is_idle(now))
    }

    /// Returns whether each process counts, until this configuration expires.
    fn is_counted_elsewhere(&self) -> bool {
        let stored = self.stored.as_ref().map(|stored| stored.config().mode);
        self.expires_ms != NEVER && stored == Some(Mode::PerClient)
    }
}
