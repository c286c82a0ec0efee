//! A single decision, whatever has to be asked for it.

use std::sync::{Arc, atomic::Ordering};

use ratelimit_spec::Mode;

use super::{
    Core, Numbers,
    denied::Manner,
    here::LOOK_EVERY_MS,
    numbers::{Rule, assertion},
    policy::unlimited,
    several::Part,
};
use crate::{
    Decision, Limits, Reason, Rejection, StoreError,
    limits::{AnyStore, Inner},
    store::{Config, Outcome, Pass, Reply, Request},
};

impl Core {
    /// The decision, where this process can make it by itself: it counts here, or it knows what
    /// the store would say.
    pub(super) fn at_once(&self, limits: &Inner, permits: u32, manner: Manner) -> Option<Reply> {
        if permits == 0 {
            return None;
        }
        let (rule, generation) = (self.rule_number.load(Ordering::Acquire), limits.generation());
        for slot in [self.own.get(), self.stored.get()].into_iter().flatten() {
            if let Some(reply) = slot.take(&limits.clock, rule, generation, permits) {
                return Some(reply);
            }
        }
        let reply = self.denied.repeated(permits, manner)?;
        // A reload that nobody noticed yet may say otherwise.
        (self.rule(limits).number == rule).then_some(reply)
    }

    /// Takes permits now, or says why not. One store call at the most in steady state, and that
    /// one shared with whoever asks at the same time.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u32,
    ) -> Result<Decision, Rejection> {
        let inner = limits.inner();
        if let Some(reply) = self.at_once(inner, permits, Manner::Waits) {
            return self.settle(&reply, permits, false);
        }
        let rule = self.rule(inner);
        let numbers = match self.ready(inner, &rule, permits)? {
            Ready::Decided(decision) => return Ok(decision),
            Ready::Ask(numbers) => numbers,
        };
        if let Some(shards) = &rule.shards {
            return Box::pin(self.decide_by_any(limits, shards, numbers, permits)).await;
        }
        let request = self.request(inner, &rule, numbers).permits(permits);
        if self.is_counted_here(numbers) {
            let counted = self.count_here(inner, &rule, &request);
            if let Some(decision) = Box::pin(counted).await {
                return decision;
            }
        }
        let answer = match &inner.store {
            AnyStore::Memory(_) => Box::pin(self.call(inner, &rule, numbers, &[permits])).await,
            AnyStore::Redis(_) => self.ask_in_batch(limits, permits).await,
        };
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => return self.without_store(inner, numbers, &request, true, &error),
        };
        match reply.outcome {
            Outcome::PerClient => self.count(inner, reply.config, permits, true, false),
            Outcome::Unknown => Err(self.unknown()),
            _ => self.settle(&reply, permits, false),
        }
    }

    /// What a request for one permit would get, without taking anything.
    pub(crate) async fn peek(&self, limits: &Inner) -> Result<Decision, Rejection> {
        let answer = self.look_ahead(limits).await;
        if self.is_shadowed(limits) { self.in_shadow(limits, answer) } else { answer }
    }

    /// What [`decide`](Self::decide) would say.
    async fn look_ahead(&self, limits: &Inner) -> Result<Decision, Rejection> {
        let rule = self.rule(limits);
        let numbers = match self.ready(limits, &rule, 1)? {
            Ready::Decided(decision) => return Ok(decision),
            Ready::Ask(numbers) => numbers,
        };
        if let Some(shards) = &rule.shards {
            return self.peek_any(limits, shards, numbers).await;
        }
        let cost = self.next_cost(limits);
        let request = self.request(limits, &rule, numbers).permits(cost);
        let peek = async {
            if rule.is_joint() {
                self.peek_jointly(limits, &rule, cost).await
            } else {
                limits.store.peek(&request).await
            }
        };
        if let Some(config) = self.in_force().filter(|config| config.mode == Mode::PerClient) {
            return self.count(limits, config, cost, false, false);
        }
        match peek.await {
            Ok(reply) => match reply.outcome {
                Outcome::PerClient => self.count(limits, reply.config, cost, false, false),
                Outcome::Unknown => Err(self.unknown()),
                _ => self.settle(&reply, cost, false),
            },
            Err(error) => self.without_store(limits, numbers, &request, false, &error),
        }
    }

    /// What there is to say before anything is counted.
    pub(super) fn ready<'a>(
        &self,
        limits: &Inner,
        rule: &'a Rule,
        permits: u32,
    ) -> Result<Ready<'a>, Rejection> {
        let numbers = rule.numbers.as_ref().map_err(|why| self.not_configured(why))?;
        if let Some(problem) = &limits.broken {
            return Err(self
                .rejection(Reason::StoreMisconfigured)
                .with_detail(Arc::clone(problem)));
        }
        if !numbers.effective.enabled.value {
            return Ok(Ready::Decided(unlimited(limits, numbers.config)));
        }
        if permits == 0 {
            return Err(self.rejection(Reason::InvalidPermits).with_detail("0; ask for 1 or more"));
        }
        let in_force = self.in_force().map_or(0, |in_force| in_force.capacity());
        if u64::from(permits) > numbers.config.capacity().max(in_force) && !numbers.follow {
            return Err(self.too_many(permits, numbers.config));
        }
        if rule.is_joint() {
            let short = |part: &Part<'_>| {
                u64::from(permits) > part.numbers.config.capacity().max(part.in_force().capacity())
            };
            if let Some(part) = self.parts(rule).into_iter().find(short) {
                return Err(self.too_many(permits, part.numbers.config));
            }
        }
        Ok(Ready::Ask(numbers))
    }

    pub(super) fn request(&self, limits: &Inner, rule: &Rule, numbers: &Numbers) -> Request<'_> {
        Request::new(&self.keys, numbers.config, rule.since)
            .revision(limits.revision())
            .assertion(assertion(rule, numbers))
            .in_force(self.in_force().and_then(|config| config.calendar))
    }

    pub(super) async fn call(
        &self,
        limits: &Inner,
        rule: &Rule,
        numbers: &Numbers,
        costs: &[u32],
    ) -> Result<Reply, StoreError> {
        let replies = self.call_for_all(limits, rule, numbers, costs).await?;
        replies.first().copied().ok_or_else(|| StoreError::unavailable("the store did not answer"))
    }

    /// Asks the store for several callers at once, by the configuration as it is now.
    pub(super) async fn call_for_batch(
        &self,
        limits: &Inner,
        costs: &[u32],
    ) -> Result<Vec<Reply>, StoreError> {
        let rule = self.rule(limits);
        match &rule.numbers {
            Ok(numbers) => self.call_for_all(limits, &rule, numbers, costs).await,
            // A reload took them away after the callers had asked.
            Err(_) => Err(StoreError::unavailable("the limiter is not configured any more")),
        }
    }

    /// Asks the store for several callers at once, and takes note of what it says.
    pub(super) async fn call_for_all(
        &self,
        limits: &Inner,
        rule: &Rule,
        numbers: &Numbers,
        costs: &[u32],
    ) -> Result<Vec<Reply>, StoreError> {
        if rule.is_joint() {
            return self.call_jointly(limits, rule, costs).await;
        }
        let request = self.request(limits, rule, numbers);
        let asked = self.denied.asking();
        let replies = limits.store.acquire_all(&request, costs).await?;
        let Some(first) = replies.first() else { return Ok(replies) };
        self.observe(limits, rule, first);
        match &limits.store {
            AnyStore::Memory(store) => {
                let ours = numbers.follow || first.config.same_limit(&numbers.config);
                if ours && matches!(first.outcome, Outcome::Granted | Outcome::Refused) {
                    let slot = self.stored.get_or_init(|| store.slot(&self.keys));
                    slot.admit(self.pass(limits, rule, first.config, first.now_ms + LOOK_EVERY_MS));
                }
            }
            AnyStore::Redis(_) => self.denied.note(asked, costs, &replies),
        }
        Ok(replies)
    }

    pub(super) fn pass(&self, limits: &Inner, rule: &Rule, config: Config, until_ms: u64) -> Pass {
        Pass { rule: rule.number, generation: limits.generation(), config, until_ms }
    }
}

/// Whether a decision needs to be counted.
pub(super) enum Ready<'a> {
    Decided(Decision),
    Ask(&'a Numbers),
}
