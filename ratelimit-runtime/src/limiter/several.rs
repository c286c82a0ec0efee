//! Several limits on one key: each is a limiter of its own in the store, and all are asked together.
//!
//! The limit with the shortest window is the key's own, so that it is where a single limit would be.
//! Each further one has a name made of the key's and its own window, which stays the same whatever
//! other limits there are.

mod combined;

use std::{iter, sync::Arc};

use ratelimit_spec::{Algorithm, Mode, format_duration};

pub(super) use self::combined::combined;
use self::combined::{bit, next_refusal};
use super::{Core, Numbers, here::counted_here, numbers::Rule};
use crate::{
    Decision, Quota, Quotas, Rejection, StoreError,
    limits::{Current, Family, Inner},
    store::{Config, MemoryStore, Reply, Request, StateKeys},
};

/// A limit beside the first, and what this process is configured with for it.
#[derive(Clone)]
pub(super) struct Further {
    core: Arc<Core>,
    rule: Arc<Rule>,
}

/// One of a key's limits as it is asked.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) core: &'a Core,
    pub(super) rule: &'a Rule,
    pub(super) numbers: &'a Numbers,
}

impl Further {
    /// The limits beside the first one of this name. What was known of them before is kept.
    pub(super) fn of(
        (keys, family, name): (&StateKeys, &Arc<Family>, &str),
        current: &Current,
        rule: &Rule,
        before: &[Self],
    ) -> Vec<Self> {
        let Ok(first) = &rule.numbers else { return Vec::new() };
        let further = first.effective.further().into_iter().map(|config| {
            let keys = StateKeys::new(further_name(keys.config(), &config));
            let numbers = Ok(Numbers { config, ..first.clone() });
            if let Some(Self { core, .. }) = before.iter().find(|known| known.core.keys == keys) {
                let rule = Arc::new(Rule::after(&core.rule.load(), current, numbers));
                core.adopt(&rule);
                return Self { core: Arc::clone(core), rule };
            }
            let rule = Arc::new(Rule::new(current, numbers));
            let core = Core::of(keys, Arc::clone(family), name, Arc::clone(&rule), true);
            Self { core: Arc::new(core), rule }
        });
        further.collect()
    }
}

/// The name a limit beside the first lives under: `{orders:42}:1h`, in the cluster slot of the first.
fn further_name(name: &str, config: &Config) -> String {
    let per = format_duration(config.quota().per());
    let name = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
    match config.algorithm {
        Algorithm::SlidingWindow => format!("{name}:{per}"),
        other => format!("{name}:{per}:{other}"),
    }
}

impl<'a> Part<'a> {
    /// What it is counted by, as far as this process knows.
    pub(super) fn in_force(&self) -> Config {
        self.core.in_force().unwrap_or(self.numbers.config)
    }

    pub(super) fn request(&self, limits: &Inner) -> Request<'a> {
        self.core.request(limits, self.rule, self.numbers)
    }
}

/// Asks the store for limits at once, a row of costs for each, and takes note of what it says of each.
pub(super) async fn ask_jointly(
    limits: &Inner,
    parts: &[Part<'_>],
    costs: &[&[u32]],
) -> Result<Vec<Vec<Reply>>, StoreError> {
    let requests: Vec<_> = parts.iter().map(|part| part.request(limits)).collect();
    let replies = limits.store.decide_group(&requests, costs).await?;
    for (part, replies) in parts.iter().zip(&replies) {
        if let Some(first) = replies.first() {
            part.core.observe(limits, part.rule, first);
        }
    }
    Ok(replies)
}

impl Core {
    /// All limits of the key, in their order; one for most.
    pub(super) fn parts<'a>(&'a self, rule: &'a Rule) -> Vec<Part<'a>> {
        let further = rule.further.iter().map(|further| (&*further.core, &*further.rule));
        let part = |(core, rule): (&'a Self, &'a Rule)| {
            Some(Part { core, rule, numbers: rule.numbers.as_ref().ok()? })
        };
        iter::once((self, rule)).chain(further).filter_map(part).collect()
    }

    /// The limiters of all limits of the key, in their order; or of all parts of one that is split.
    pub(crate) fn limiters(self: &Arc<Self>, limits: &Inner) -> Vec<Arc<Self>> {
        let rule = self.rule(limits);
        if let Some(shards) = &rule.shards {
            return shards.to_vec();
        }
        let further = rule.further.iter().map(|further| Arc::clone(&further.core));
        iter::once(Arc::clone(self)).chain(further).collect()
    }

    /// The limiter of the limit that a quota would change: the only one, or the one with its window
    /// and algorithm.
    pub(crate) fn limiter_of(
        self: &Arc<Self>,
        limits: &Inner,
        quota: &Quota,
    ) -> Result<Arc<Self>, StoreError> {
        let rule = self.rule(limits);
        if !rule.is_joint() {
            return Ok(Arc::clone(self));
        }
        let parts = self.parts(&rule);
        let quotas: Vec<Quota> = parts.iter().map(|part| part.numbers.config.quota()).collect();
        let same =
            |known: &Quota| known.per() == quota.per() && known.algorithm() == quota.algorithm();
        match quotas.iter().position(same) {
            Some(n) => Ok(self.limiters(limits).swap_remove(n)),
            None => Err(StoreError::misconfigured(format!(
                "`{quota}` changes none of the limits of `{}`, which are {}; write one of their windows",
                self.family.key,
                Quotas::from(Arc::from(quotas)),
            ))),
        }
    }

    /// The quotas in force, as far as this process knows.
    pub(crate) fn quotas(&self, limits: &Inner) -> Result<Quotas, Rejection> {
        let quotas = self.known_of_all(limits)?.iter().map(Config::quota).collect::<Arc<[_]>>();
        Ok(Quotas::from(quotas))
    }

    /// The numbers in force of all limits, as far as this process knows.
    pub(super) fn known_of_all(&self, limits: &Inner) -> Result<Vec<Config>, Rejection> {
        let first = self.known(limits)?;
        let rule = self.rule(limits);
        let further = self.parts(&rule).into_iter().skip(1);
        Ok(iter::once(first).chain(further.map(|part| part.in_force())).collect())
    }

    /// Which limits a reply says are violated.
    #[cold]
    pub(super) fn violated(&self, reply: &Reply) -> Arc<[Quota]> {
        let rule = self.rule.load();
        let parts = self.parts(&rule);
        let violated = parts.iter().enumerate().filter(|(n, _)| reply.violated & bit(*n) != 0);
        violated.map(|(_, part)| part.in_force().quota()).collect()
    }

    /// Asks the store for all limits of the key at once, for several callers.
    pub(super) async fn call_jointly(
        &self,
        limits: &Inner,
        rule: &Rule,
        costs: &[u32],
    ) -> Result<Vec<Reply>, StoreError> {
        let parts = self.parts(rule);
        let asked = self.denied.asking();
        let replies = ask_jointly(limits, &parts, &vec![costs; parts.len()]).await?;
        let of_caller = |n: usize| -> Option<Vec<Reply>> {
            replies.iter().map(|replies| replies.get(n).copied()).collect()
        };
        let each: Option<Vec<Vec<Reply>>> = (0..costs.len()).map(of_caller).collect();
        let each = each.ok_or_else(|| StoreError::unavailable("the store did not answer"))?;
        if limits.store.is_shared() {
            let refusals: Vec<Reply> = each.iter().map(|replies| next_refusal(replies)).collect();
            self.denied.note(asked, costs, &refusals);
        }
        Ok(each.iter().map(|replies| combined(replies)).collect())
    }

    /// What all limits would say, without taking anything.
    pub(super) async fn peek_jointly(
        &self,
        limits: &Inner,
        rule: &Rule,
        permits: u32,
    ) -> Result<Reply, StoreError> {
        let mut replies = Vec::new();
        for part in self.parts(rule) {
            replies.push(limits.store.peek(&part.request(limits), permits).await?);
        }
        Ok(combined(&replies))
    }

    /// Takes permits of all limits in this process, with a look at their stored configuration now and
    /// then. Nothing when that look found that the store counts again.
    pub(super) async fn count_all_here(
        &self,
        limits: &Inner,
        rule: &Rule,
        permits: u32,
    ) -> Option<Result<Decision, Rejection>> {
        let parts = self.parts(rule);
        let mut looked = true;
        for part in &parts {
            looked &= part.core.look_in_turn(limits, part.rule, &part.request(limits)).await;
        }
        let counted_here = |part: &Part<'_>| part.in_force().mode == Mode::PerClient;
        let counted = || self.count_jointly(limits, rule, permits, true, !looked);
        parts.iter().all(counted_here).then(counted)
    }

    /// Counts in this process, against the numbers in force.
    pub(super) fn count_jointly(
        &self,
        limits: &Inner,
        rule: &Rule,
        permits: u32,
        take: bool,
        degraded: bool,
    ) -> Result<Decision, Rejection> {
        let own = |part: Part<'_>| counted_here(part.in_force());
        let reply = self.counted(&limits.per_client, rule, own, permits, take);
        self.settle(&reply, permits, degraded)
    }

    /// Counts all limits by these numbers, in one step.
    pub(super) fn counted(
        &self,
        store: &MemoryStore,
        rule: &Rule,
        numbers: impl Fn(Part<'_>) -> Config,
        permits: u32,
        take: bool,
    ) -> Reply {
        let parts = self.parts(rule);
        let limiters: Vec<_> = parts.iter().map(|part| (&part.core.keys, numbers(*part))).collect();
        let replies = if take {
            store.count_jointly(&limiters, &vec![permits; limiters.len()])
        } else {
            limiters.iter().map(|(keys, config)| store.look(keys, *config, permits)).collect()
        };
        combined(&replies)
    }
}

impl Rule {
    /// Whether the key has several limits.
    pub(super) fn is_joint(&self) -> bool {
        !self.further.is_empty()
    }
}
