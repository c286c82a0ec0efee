//! Plans which limiters a call takes from: all of them, or any one of them.
//!
//! A call makes a [`Claim`] on each limiter that it names, and takes from all of them or from none.
//! A limiter under one key has [`Members`]: itself; several limits, all of which have to grant; or
//! shards, any of which may. The limit with the shortest window is stored under the key's own name,
//! like a single limit. The name of an additional limit consists of the key's name and its window,
//! and does not depend on the other limits.

mod shards;

use std::{
    iter,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use ratelimit_spec::{Algorithm, Wait, format_duration};

use self::shards::shards;
use super::{
    core::{Additional, Core, Members, Numbers, Rule},
    numbers::resolve,
    rare::Rare,
    rules::Wanted,
    services::Services,
    share::Share,
};
use crate::{
    Mode, Quota, Quotas, Settings, StoreError,
    events::Event,
    settings::{Current, Family, Name},
    store::{AnyStore, Config, Outcome, Reconciled, Reply, Request, StateKeys},
};

/// The permits that a call takes from one limiter, and how long it may wait for them.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) core: Arc<Core>,
    pub(crate) permits: u64,
    pub(crate) wait: Wait,
    /// Whether the call can return a rejection.
    pub(crate) fallible: bool,
}

/// A claim that is being decided.
pub(super) struct Asked<'a> {
    pub(super) position: usize,
    pub(super) core: &'a Arc<Core>,
    pub(super) rule: &'a Rule,
    pub(super) numbers: &'a Numbers,
    pub(super) permits: u32,
}

/// One of the stored limiters that a call takes from.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) core: &'a Core,
    pub(super) rule: &'a Rule,
    pub(super) numbers: &'a Numbers,
}

impl Additional {
    /// Creates the additional limits of this name. Their previous state is kept.
    pub(super) fn of(
        (keys, family, name): (&StateKeys, &Arc<Family>, Name<'_>),
        current: &Current,
        rule: &Rule,
        before: &Members,
    ) -> Vec<Self> {
        let Ok(first) = &rule.numbers else { return Vec::new() };
        let since = current.since_of(family, name.given);
        let additional = first.effective.further().into_iter().map(|config| {
            let keys = StateKeys::new(additional_name(keys.config(), &config));
            let numbers = Ok(Numbers { config, ..first.clone() });
            if let Some(Self { core, .. }) =
                before.additional().iter().find(|known| known.core.keys == keys)
            {
                let rule = Rule::after(&core.rule.load(), current, since, numbers);
                let rule = Arc::new(rule);
                core.adopt(&rule);
                return Self { core: Arc::clone(core), rule };
            }
            let rule = Arc::new(Rule::new(&rule.services, current, since, numbers));
            let core = Core::of(keys, Arc::clone(family), name.stored, Arc::clone(&rule), true);
            Self { core: Arc::new(core), rule }
        });
        additional.collect()
    }
}

/// Returns the name of an additional limit: `{orders:42}:~1h`, in the cluster slot of the first. No value makes
/// another limiter's name the same, because a `~` in a value is escaped.
fn additional_name(name: &str, config: &Config) -> String {
    let per = format_duration(config.quota().per());
    let name = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
    match config.rule.algorithm() {
        Algorithm::SlidingWindow => format!("{name}:~{per}"),
        other => format!("{name}:~{per}:{other}"),
    }
}

impl<'a> Part<'a> {
    /// Returns the active configuration, as far as this process knows: its own, if that is new and the store has
    /// yet to compare it with the stored one.
    pub(super) fn in_force(&self) -> Config {
        if !self.numbers.follow && self.core.is_new(self.rule) {
            return self.numbers.config;
        }
        self.core.in_force().unwrap_or(self.numbers.config)
    }

    /// Returns the most permits that can be owed, if that is set.
    pub(super) fn max_debt(&self) -> Option<u64> {
        let most = self.numbers.effective.set.max_debt.as_ref()?.value;
        Some(self.core.share().map_or(most, |share| share.part(most)).into())
    }

    /// Returns the active or the own configuration; `None` if only the store has one, which is not known yet.
    pub(super) fn known(&self) -> Option<Config> {
        self.core.in_force().or((!self.numbers.follow).then_some(self.numbers.config))
    }

    pub(super) fn request(&self, limits: &Services) -> Request<'a> {
        let Self { core, rule, numbers } = self;
        let in_force = core.in_force();
        let config = match in_force.filter(|_| numbers.follow) {
            // The store rebuilds its counter if it was changed by hand since then.
            Some(known) => known.keep_alive_ms(numbers.config.keep_alive_ms),
            None => numbers.config,
        };
        Request::new(&core.keys, config, rule.since)
            .revision(limits.revision())
            .assertion(core.assertion(rule, numbers))
            .in_force(in_force.and_then(|config| config.calendar()))
            .member(rule.member)
            .abandons(core.gone())
            // The first limit has the name of the key.
            .penalty(rule.penalty().filter(|_| !core.is_further))
    }

    /// Stores the active configuration of a reply of the store, and reports the result of reconciliation.
    pub(super) fn observe(&self, limits: &Services, reply: &Reply) {
        let Self { core, rule, .. } = self;
        let is_first = reply.outcome != Outcome::Unknown && core.state(rule);
        let is_news = core.hear(rule, reply);
        if let Some(member) = rule.member {
            core.note_gone(reply.announcer.filter(|it| !limits.members.lives(*it, member)));
        }
        let limiter = || Arc::clone(&core.family.key);
        if reply.ahead_ms > 0 {
            let (limiter, ahead) = (limiter(), Duration::from_millis(reply.ahead_ms));
            limits.events.emit(&Event::ClockAhead { limiter, ahead });
        }
        if reply.reconciled == Some(Reconciled::Reset) {
            limits.per_client.forget(&core.keys);
        }
        let outcome = match reply.reconciled {
            // Reported once, not with every following call.
            Some(Reconciled::Followed) if !is_first && !is_news => return,
            Some(outcome) => outcome,
            None => return,
        };
        core.family.count_reconciled(outcome);
        let old = match outcome {
            Reconciled::Created | Reconciled::Unchanged => return,
            Reconciled::Reset | Reconciled::Carried => reply.replaced.copied(),
            Reconciled::Followed => rule.numbers.as_ref().ok().map(|numbers| numbers.config),
        };
        let new = reply.config;
        let modes = old.map(|old| (Mode::of(old.mode), Mode::of(new.mode)));
        limits.events.emit(&Event::Reconciled {
            limiter: limiter(),
            outcome,
            old: old.map(|config| config.quota()),
            new: new.quota(),
            modes: modes.filter(|(old, new)| old != new),
        });
    }
}

impl Rule {
    /// Returns the shared rule of a limiter without settings of its own, if other limiters use it.
    pub(super) fn common(
        limits: &Services,
        family: &Family,
        name: &str,
        given: Option<&Settings>,
    ) -> Option<Arc<Self>> {
        limits.rules.find(&Wanted::of(&limits.current(), (family, name), given, None)?)
    }

    /// Creates the current rule of a limiter, with its additional limits and its shards.
    /// Their previous state is kept.
    pub(super) fn of(
        limits: &Services,
        (keys, family): (&StateKeys, &Arc<Family>),
        itself: (Name<'_>, Option<Share>),
        given: Option<&Settings>,
        before: Option<&Self>,
    ) -> Arc<Self> {
        let current = limits.current();
        let wanted = match itself.1 {
            None => Wanted::of(&current, (family, itself.0.given), given, before),
            Some(_) => None,
        };
        if let Some(rule) = wanted.as_ref().and_then(|wanted| limits.rules.find(wanted)) {
            return rule;
        }
        let numbers = resolve(&current, family, itself, given);
        let since = current.since_of(family, itself.0.given);
        let known = before.map_or(&Members::Itself, |rule| &rule.members);
        let rule = match before {
            Some(before) => Self::after(before, &current, since, numbers),
            None => Self::new(&limits.this, &current, since, numbers),
        };
        let shards = shards(limits, family, itself, given, &rule, known);
        let members = shards.unwrap_or_else(|| {
            match Additional::of((keys, family, itself.0), &current, &rule, known) {
                additional if additional.is_empty() => Members::Itself,
                additional => Members::All(additional),
            }
        });
        let rule = Arc::new(Self { members, ..rule });
        if let (Some(wanted), Members::Itself) = (wanted, &rule.members) {
            limits.rules.keep(&wanted, &rule);
        }
        rule
    }

    /// Returns whether the key has several limits.
    pub(super) fn is_joint(&self) -> bool {
        matches!(self.members, Members::All(_))
    }

    /// Returns the shards of a limiter that is split.
    pub(super) fn shards(&self) -> Option<&Arc<[Arc<Core>]>> {
        match &self.members {
            Members::Any(shards) => Some(shards),
            Members::Itself | Members::All(_) => None,
        }
    }
}

impl Members {
    fn additional(&self) -> &[Additional] {
        match self {
            Self::All(additional) => additional,
            Self::Itself | Self::Any(_) => &[],
        }
    }
}

impl Core {
    pub(crate) fn new<'a>(
        limits: &Services,
        family: Arc<Family>,
        name: impl Into<Name<'a>>,
        given: Option<Settings>,
    ) -> Self {
        Self::part(limits, family, (name.into(), None), given)
    }

    /// Creates a limiter, or one of its shards, which has the same settings and is stored under another name.
    fn part(
        limits: &Services,
        family: Arc<Family>,
        itself: (Name<'_>, Option<Share>),
        given: Option<Settings>,
    ) -> Self {
        let (name, share) = itself;
        let whole = format!("{}{}", limits.key_prefix, name.stored);
        let keys = StateKeys::new(share.map_or(whole.clone(), |share| share.name(&whole)));
        let rule = Rule::of(limits, (&keys, &family), itself, given.as_ref(), None);
        let core = Self::of(keys, family, name.stored, rule, false);
        let given_name = (name.given != name.stored).then(|| name.given.into());
        if given.is_some() || share.is_some() || given_name.is_some() {
            let given = Mutex::new(given);
            // The limiter is not shared yet.
            let _ = core.rare.set(Box::new(Rare { given, given_name, share, ..Rare::default() }));
        }
        if let AnyStore::Memory(store) = &limits.store
            && let Some(slot) = store.leased(&core.keys, core.rule_number.load(Ordering::Acquire))
        {
            // The limiter was evicted since then.
            core.state(&core.rule.load());
            let _ = core.stored.set(slot);
        }
        core
    }

    /// Returns all limits of the key, in order; most keys have one.
    pub(super) fn parts<'a>(&'a self, rule: &'a Rule) -> Vec<Part<'a>> {
        self.each_part(rule).collect()
    }

    pub(super) fn each_part<'a>(&'a self, rule: &'a Rule) -> impl Iterator<Item = Part<'a>> {
        let additional = rule.members.additional().iter().map(|other| (&*other.core, &*other.rule));
        let part = |(core, rule): (&'a Self, &'a Rule)| {
            Some(Part { core, rule, numbers: rule.numbers.as_ref().ok()? })
        };
        iter::once((self, rule)).chain(additional).filter_map(part)
    }

    /// Returns the stored limiters of all limits of the key, in order, or all of its shards.
    pub(super) fn limiters(self: &Arc<Self>, limits: &Services) -> Vec<Arc<Self>> {
        self.members(&self.rule(limits))
    }

    pub(super) fn members(self: &Arc<Self>, rule: &Rule) -> Vec<Arc<Self>> {
        if let Some(shards) = rule.shards() {
            return shards.to_vec();
        }
        let additional = rule.members.additional().iter().map(|other| Arc::clone(&other.core));
        iter::once(Arc::clone(self)).chain(additional).collect()
    }

    /// Returns the limiters that a quota changes: the only one, its shards, or the one of the limit with its
    /// window and algorithm.
    pub(super) fn limiters_of(
        self: &Arc<Self>,
        limits: &Services,
        quota: &Quota,
    ) -> Result<Vec<Arc<Self>>, StoreError> {
        let rule = self.rule(limits);
        if let Some(shards) = rule.shards() {
            return self.divisible(quota, shards.len()).map(|()| shards.to_vec());
        }
        if !rule.is_joint() {
            return Ok(vec![Arc::clone(self)]);
        }
        let configured = self.each_part(&rule).map(|part| part.numbers.config.quota());
        let quotas: Vec<Quota> = configured.collect();
        let window = |quota: &Quota| (quota.per(), quota.rule().algorithm());
        let same = |known: &Quota| window(known) == window(quota);
        match quotas.iter().position(same) {
            Some(n) => Ok(vec![self.members(&rule).swap_remove(n)]),
            None => Err(StoreError::misconfigured(format!(
                "`{quota}` matches no limit of `{}` ({}); use the window and algorithm of one of them",
                self.family.key,
                Quotas::stored(quotas),
            ))),
        }
    }
}
