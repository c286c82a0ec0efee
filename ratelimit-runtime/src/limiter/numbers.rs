//! What a process is configured with for one key, and how that changes.

use std::sync::{
    Arc, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::time::Instant;

use super::{
    Core, Patience,
    shards::{Shards, Share, shards},
};
use crate::{
    Quota, Reason, Rejection, clock,
    limits::{Current, Family, Inner},
    settings::{Effective, Missing},
    store::Config,
};

/// What this process is configured with for a key, as of one generation of the limits.
pub(super) struct Rule {
    /// No other rule of this process has it.
    pub(super) number: u64,
    generation: u64,
    pub(super) since: Instant,
    pub(super) numbers: Result<Numbers, Missing>,
    pub(super) shards: Shards,
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

    pub(super) fn new(
        limits: &Inner,
        family: &Arc<Family>,
        (name, share): (&str, Option<Share>),
        given: Option<Quota>,
    ) -> Self {
        let current = limits.current();
        let numbers = numbers(&current, family, (name, share), given);
        let shards = shards(limits, family, (name, share), given, &numbers, &None);
        Self::of(&current, current.since, numbers, shards)
    }

    fn of(
        current: &Current,
        since: Instant,
        numbers: Result<Numbers, Missing>,
        shards: Shards,
    ) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let stated = AtomicBool::new(false);
        Self { number, generation: current.number, since, numbers, shards, stated }
    }
}

impl Core {
    /// What this process goes by, read anew after a reload.
    pub(crate) fn numbers(&self, limits: &Inner) -> Result<Numbers, Rejection> {
        self.rule(limits).numbers.clone().map_err(|missing| self.not_configured(missing))
    }

    /// How long an annotated call may wait; one without numbers does not come to that.
    pub(crate) fn patience(&self, limits: &Inner) -> Patience {
        let rule = self.rule(limits);
        let wait = rule.numbers.as_ref().ok().map(|numbers| numbers.effective.wait.value);
        wait.map_or(Patience::None, Patience::from)
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

    pub(super) fn unknown(&self) -> Rejection {
        self.rejection(Reason::NotConfigured)
            .with_detail("neither this process nor the store has numbers for it")
    }

    pub(super) fn not_configured(&self, Missing(what): Missing) -> Rejection {
        self.rejection(Reason::NotConfigured)
            .with_detail(format!("no `{what}` in the attribute or the limits file"))
    }

    pub(super) fn rule(&self, limits: &Inner) -> Arc<Rule> {
        let rule = self.rule.load();
        if rule.generation == limits.generation() {
            return Arc::clone(&rule);
        }
        self.renew(limits, &rule)
    }

    /// Gives the limiter another quota in code, which the limits file may still override.
    pub(crate) fn give(&self, limits: &Inner, quota: Quota) {
        let before = self.given().replace(quota);
        if before != Some(quota) {
            let renewed = self.renew(limits, &self.rule.load());
            for shard in renewed.shards.iter().flat_map(|shards| shards.iter()) {
                shard.give(limits, quota);
            }
        }
    }

    fn given(&self) -> MutexGuard<'_, Option<Quota>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn renew(&self, limits: &Inner, rule: &Rule) -> Arc<Rule> {
        let current = limits.current();
        let given = *self.given();
        let itself = (&*self.name, self.share);
        let numbers = numbers(&current, &self.family, itself, given);
        let shards = shards(limits, &self.family, itself, given, &numbers, &rule.shards);
        let config = |numbers: &Result<Numbers, Missing>| {
            numbers.as_ref().ok().map(|numbers| numbers.config)
        };
        // Equal numbers are not a new configuration, so they are as old as before.
        let unchanged = config(&numbers) == config(&rule.numbers);
        let since = if unchanged { rule.since } else { clock::instant() };
        let renewed = Arc::new(Rule::of(&current, since, numbers, shards));
        self.rule.store(Arc::clone(&renewed));
        self.shadowed.store(renewed.is_shadowed(), Ordering::Release);
        self.rule_number.store(renewed.number, Ordering::Release);
        self.denied.forget();
        renewed
    }
}

fn numbers(
    current: &Current,
    family: &Family,
    (name, share): (&str, Option<Share>),
    given: Option<Quota>,
) -> Result<Numbers, Missing> {
    let (effective, follow) = match current.resolve(family, name, given) {
        Ok(effective) => (effective, false),
        // A name that only exists at run time may be somebody else's limiter.
        Err(_) if family.annotation.is_none() => (current.resolve_following(family, name), true),
        Err(missing) => return Err(missing),
    };
    let whole = effective.config();
    let config = share.map_or(whole, |share| share.of(whole));
    Ok(Numbers { effective, config, follow })
}
