//! What a request would get, without taking anything; and charges, which are taken without asking.

use std::sync::Arc;

use ratelimit_spec::OnStoreError;

use super::{
    Answer, Outcome, Why,
    answer::{Ready, unlimited},
};
use crate::{
    Limits, Reason, Rejection, Settlement, StoreError, StoreErrorKind,
    limiter::{
        core::{Core, Numbers, Rule},
        per_process::{counted_here, local_share},
        plan::Part,
        replies::combined,
    },
    limits::Inner,
    store::{Config, MemoryStore, Reply},
};

impl Core {
    /// Returns what a request would get now.
    pub(crate) async fn peek(
        self: &Arc<Self>,
        limits: &Inner,
        permits: u64,
    ) -> Result<Answer, Rejection> {
        let rule = self.rule(limits);
        let why = match Box::pin(self.look(limits, &rule, permits)).await {
            Ok(answer) => return Ok(answer),
            Err(why) => why,
        };
        // A look is not counted as a call that shadow mode admitted.
        if let Some(answer) = self.in_shadow(limits, &rule, &why) {
            return Ok(answer);
        }
        Err(match why {
            Why::NotNow(answer) => self.refused(Reason::Limited, &answer),
            Why::Rejected(rejection) => rejection,
        })
    }

    async fn look(&self, limits: &Inner, rule: &Rule, permits: u64) -> Result<Answer, Why> {
        let (numbers, cost) = match self.ready(limits, rule, permits).map_err(Why::Rejected)? {
            Ready::Decided(answer) => return Ok(answer),
            Ready::Ask(numbers, cost) => (numbers, cost),
        };
        if let Some(shards) = rule.shards() {
            return self.look_at_any(limits, shards, numbers, permits).await;
        }
        let parts = self.parts(rule);
        let mut each = Vec::with_capacity(parts.len());
        if self.is_counted_here(rule) {
            each.extend(looks(&limits.per_client, &parts, cost, counted_here));
        } else {
            for part in &parts {
                let reply = match limits.store.peek(&part.request(limits), cost).await {
                    Ok(reply) => reply,
                    Err(error) => return self.look_without_store(limits, rule, cost, &error),
                };
                each.push(match reply.outcome {
                    Outcome::PerClient => {
                        limits.per_client.look(&part.core.keys, counted_here(reply.config), cost)
                    }
                    _ => reply,
                });
            }
        }
        self.seen(&each, cost, false)
    }

    fn seen(&self, each: &[Reply], permits: u32, degraded: bool) -> Result<Answer, Why> {
        let heard = combined(each);
        match heard.reply.outcome {
            Outcome::Granted => Ok(self.answer(&heard, permits, degraded)),
            _ => Err(self.refused_by(&heard, permits, degraded)),
        }
    }

    fn look_without_store(
        &self,
        limits: &Inner,
        rule: &Rule,
        permits: u32,
        error: &StoreError,
    ) -> Result<Answer, Why> {
        let refuse = |reason| Why::Rejected(self.rejection(reason).with_source(error));
        if error.kind() == StoreErrorKind::Misconfigured {
            return Err(refuse(Reason::StoreMisconfigured));
        }
        let numbers = rule.numbers.as_ref().map_err(|_| refuse(Reason::StoreUnavailable))?;
        match numbers.effective.on_store_error.value {
            OnStoreError::Reject => Err(refuse(Reason::StoreUnavailable)),
            OnStoreError::Allow => {
                let config = self.in_force().unwrap_or(numbers.config);
                Ok(Answer { degraded: true, ..unlimited(limits, config) })
            }
            _ => {
                let share = |config| local_share(limits, config);
                let each: Vec<_> =
                    looks(&limits.local, &self.parts(rule), permits, share).collect();
                self.seen(&each, permits, true)
            }
        }
    }

    async fn look_at_any(
        &self,
        limits: &Inner,
        shards: &[Arc<Self>],
        numbers: &Numbers,
        permits: u64,
    ) -> Result<Answer, Why> {
        let quota = numbers.config.quota();
        if permits > numbers.config.capacity() / shards.len() as u64 {
            return Err(Why::Rejected(self.too_many_of_shards(permits, quota, shards.len())));
        }
        let (mut best, mut remaining) = (None::<Result<Answer, Why>>, 0);
        for shard in shards {
            let rule = shard.rule(limits);
            let one = Box::pin(shard.look(limits, &rule, permits)).await;
            remaining += match &one {
                Ok(answer) => answer.remaining,
                Err(Why::NotNow(answer)) => answer.remaining,
                Err(Why::Rejected(_)) => 0,
            };
            best = Some(match (best, one) {
                (Some(Err(before)), Err(why)) => Err(before.sooner(why)),
                (Some(Ok(before)), Ok(answer)) => {
                    let reset_after = before.reset_after.max(answer.reset_after);
                    Ok(Answer { reset_after, ..before })
                }
                (Some(Ok(before)), Err(_)) => Ok(before),
                (_, one) => one,
            });
        }
        let of_all = |answer: Answer| Answer { quota, remaining, ..answer };
        match best {
            Some(Ok(answer)) => Ok(of_all(answer)),
            Some(Err(Why::NotNow(answer))) => Err(Why::NotNow(Box::new(of_all(*answer)))),
            Some(Err(why)) => Err(why),
            None => Err(Why::Rejected(self.unknown())),
        }
    }

    /// Takes permits without asking whether they are free. What is not free is owed.
    pub(crate) async fn charge(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u64,
    ) -> Result<Settlement, StoreError> {
        let inner = limits.inner();
        let rule = self.rule(inner);
        let asked = u32::try_from(permits).unwrap_or(u32::MAX);
        let (permits, beyond) = (asked, permits - u64::from(asked));
        let numbers = match self.ready(inner, &rule, 1) {
            Ok(Ready::Decided(_)) => return Ok(Settlement::default()),
            Ok(Ready::Ask(numbers, _)) => numbers,
            Err(rejection) => return Err(unconfigured(&rejection)),
        };
        if let Some(shards) = rule.shards() {
            // Each shard pays its part of the cost.
            let mut all = Settlement::default();
            for (n, shard) in shards.iter().enumerate() {
                let of = u32::try_from(shards.len()).unwrap_or(u32::MAX);
                let part = ratelimit_spec::shard_of(permits, of, u32::try_from(n).unwrap_or(0));
                let one = Box::pin(shard.charge(limits, part.into())).await?;
                all.taken += one.taken;
                all.debt += one.debt;
                all.excess += one.excess;
            }
            return Ok(all);
        }
        let mut strictest = Settlement::default();
        for part in self.parts(&rule) {
            let config = part.in_force();
            let max_debt = numbers.effective.max_debt.map_or(config.capacity(), |most| {
                self.share.map_or(most.value, |share| share.part(most.value)).into()
            });
            let charged = if config.mode == ratelimit_spec::Mode::PerClient {
                let config = counted_here(config);
                inner.per_client.charge_counted(&part.core.keys, config, permits, max_debt).1
            } else {
                match inner.store.charge(&part.request(inner), permits, max_debt).await {
                    Ok((reply, charged)) => {
                        part.core.observe(inner, part.rule, &reply);
                        match reply.outcome {
                            Outcome::Unknown => return Err(unconfigured(&self.unknown())),
                            Outcome::PerClient => {
                                let (keys, config) = (&part.core.keys, counted_here(reply.config));
                                inner.per_client.charge_counted(keys, config, permits, max_debt).1
                            }
                            _ => charged,
                        }
                    }
                    Err(error)
                        if error.kind() != StoreErrorKind::Misconfigured
                            && numbers.effective.on_store_error.value == OnStoreError::Local =>
                    {
                        let share = local_share(inner, config);
                        inner.local.charge_counted(&part.core.keys, share, permits, max_debt).1
                    }
                    Err(error) => return Err(error),
                }
            };
            part.core.denials.forget();
            if strictest.taken == 0 || charged.taken < strictest.taken {
                strictest = Settlement {
                    taken: charged.taken,
                    debt: charged.debt,
                    excess: charged.excess + beyond,
                    ..Settlement::default()
                };
            }
        }
        self.denials.forget();
        Ok(strictest)
    }
}

/// Why a charge could not be made.
fn unconfigured(rejection: &Rejection) -> StoreError {
    StoreError::misconfigured(rejection.to_string())
}

fn looks<'a>(
    store: &'a MemoryStore,
    parts: &'a [Part<'_>],
    permits: u32,
    numbers: impl Fn(Config) -> Config + 'a,
) -> impl Iterator<Item = Reply> + 'a {
    parts.iter().map(move |part| store.look(&part.core.keys, numbers(part.in_force()), permits))
}
