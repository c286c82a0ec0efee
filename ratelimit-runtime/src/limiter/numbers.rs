//! What a process is configured with for one key, and how that changes.

use std::sync::{
    Arc, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use ratelimit_spec::Wait;
use tokio::time::Instant;

use super::{
    Core,
    plan::{Additional, Members, Share, shards},
};
use crate::{
    Quotas, Rejection, clock,
    limits::{Current, Family, Inner},
    settings::{Effective, Unresolved},
    store::{Assertion, Config, StateKeys},
};

/// What this process is configured with for a key, as of one generation of the limits.
pub(super) struct Rule {
    /// No other rule of this process has it.
    pub(super) number: u64,
    generation: u64,
    pub(super) since: Instant,
    pub(super) numbers: Result<Numbers, Unresolved>,
    /// The stored limiters of the key.
    pub(super) members: Members,
    /// Whether this process has stated them to the store.
    stated: AtomicBool,
}

/// The numbers themselves.
#[derive(Clone)]
pub(crate) struct Numbers {
    pub(crate) effective: Effective,
    pub(crate) config: Config,
    /// Nobody configured any here: whatever is stored is right.
    pub(crate) follow: bool,
}

impl Rule {
    pub(super) fn is_stated(&self) -> bool {
        self.stated.load(Ordering::Acquire)
    }

    pub(super) fn state(&self) {
        self.stated.store(true, Ordering::Release);
    }

    pub(super) fn is_shadowed(&self) -> bool {
        self.numbers.as_ref().is_ok_and(|numbers| numbers.effective.shadow.value)
    }

    /// A rule that is as old as the limits.
    pub(super) fn new(current: &Current, numbers: Result<Numbers, Unresolved>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            generation: current.number,
            since: current.since,
            numbers,
            members: Members::Itself,
            stated: AtomicBool::new(false),
        }
    }

    /// What there is to say of a limiter now, with the limits beside the first and its parts. What was
    /// known of them before is kept.
    pub(super) fn of(
        limits: &Inner,
        (keys, family): (&StateKeys, &Arc<Family>),
        itself: (&str, Option<Share>),
        given: Option<&Quotas>,
        before: Option<&Self>,
    ) -> Self {
        let current = limits.current();
        let numbers = numbers(&current, family, itself, given);
        let known = before.map_or(&Members::Itself, |rule| &rule.members);
        let rule = match before {
            Some(before) => Self::after(before, &current, numbers),
            None => Self::new(&current, numbers),
        };
        let shards = shards(limits, family, itself, given, &rule, known);
        let members = shards.unwrap_or_else(|| {
            match Additional::of((keys, family, itself.0), &current, &rule, known) {
                additional if additional.is_empty() => Members::Itself,
                additional => Members::All(additional),
            }
        });
        Self { members, ..rule }
    }

    /// A rule in the place of another. Equal numbers are not a new configuration, so they are as old as
    /// before.
    pub(super) fn after(
        before: &Self,
        current: &Current,
        numbers: Result<Numbers, Unresolved>,
    ) -> Self {
        let config = |numbers: &Result<Numbers, Unresolved>| {
            numbers.as_ref().ok().map(|numbers| numbers.config)
        };
        let unchanged = config(&numbers) == config(&before.numbers);
        let since = if unchanged { before.since } else { clock::instant() };
        Self { since, ..Self::new(current, numbers) }
    }
}

impl Core {
    /// What this process goes by, read anew after a reload.
    pub(crate) fn numbers(&self, limits: &Inner) -> Result<Numbers, Rejection> {
        self.rule(limits).numbers.clone().map_err(|why| self.not_configured(&why))
    }

    /// How long an annotated call may wait; one without a configuration does not get to wait.
    pub(crate) fn wait(&self, limits: &Inner) -> Wait {
        let rule = self.rule(limits);
        rule.numbers.as_ref().map_or(Wait::None, |numbers| numbers.effective.wait.value)
    }

    /// Whether the limiter is in shadow mode, as of the last reading of the limits.
    pub(super) fn is_shadowed(&self, limits: &Inner) -> bool {
        self.rule(limits).is_shadowed()
    }

    /// The numbers in force, as far as this process knows.
    pub(crate) fn known(&self, limits: &Inner) -> Result<Config, Rejection> {
        let numbers = self.numbers(limits)?;
        match self.in_force() {
            Some(config) => Ok(config),
            None if numbers.follow => Err(self.unknown()),
            None => Ok(numbers.config),
        }
    }

    pub(super) fn rule(&self, limits: &Inner) -> Arc<Rule> {
        let rule = self.rule.load();
        // A further limit's rule is renewed along with that of the first.
        if rule.generation == limits.generation() || self.is_further {
            return Arc::clone(&rule);
        }
        self.renew(limits, &rule)
    }

    /// Gives the limiter another quota in code, which the limits file may still override.
    pub(crate) fn give(&self, limits: &Inner, quotas: &Quotas) {
        let mut given = self.given();
        if given.as_ref() != Some(quotas) {
            *given = Some(quotas.clone());
            drop(given);
            let renewed = self.renew(limits, &self.rule.load());
            for shard in renewed.shards().into_iter().flat_map(|shards| shards.iter()) {
                shard.give(limits, quotas);
            }
        }
    }

    fn given(&self) -> MutexGuard<'_, Option<Quotas>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn renew(&self, limits: &Inner, rule: &Rule) -> Arc<Rule> {
        let given = self.given().clone();
        let (stored, itself) = ((&self.keys, &self.family), (&*self.name, self.share));
        let renewed = Arc::new(Rule::of(limits, stored, itself, given.as_ref(), Some(rule)));
        self.adopt(&renewed);
        renewed
    }

    /// Goes by another rule from now on.
    pub(super) fn adopt(&self, renewed: &Arc<Rule>) {
        self.rule.store(Arc::clone(renewed));
        self.shadowed.store(renewed.is_shadowed(), Ordering::Release);
        self.rule_number.store(renewed.number, Ordering::Release);
        self.denials.forget();
    }
}

fn numbers(
    current: &Current,
    family: &Family,
    (name, share): (&str, Option<Share>),
    given: Option<&Quotas>,
) -> Result<Numbers, Unresolved> {
    let (effective, follow) = match current.resolve(family, name, given) {
        Ok(effective) => (effective, false),
        // A name that only exists at run time may be somebody else's limiter.
        Err(Unresolved::Missing(_)) if family.annotation.is_none() => {
            (current.resolve_following(family, name), true)
        }
        Err(missing) => return Err(missing),
    };
    let whole = effective.config();
    let config = share.map_or(whole, |share| share.of(whole));
    Ok(Numbers { effective, config, follow })
}

/// Whether a request states the numbers, and how.
pub(super) fn assertion(rule: &Rule, numbers: &Numbers) -> Assertion {
    if numbers.follow {
        Assertion::Follow { first: !rule.is_stated() }
    } else if rule.is_stated() {
        Assertion::Steady
    } else {
        Assertion::First(numbers.effective.on_drift.value)
    }
}
