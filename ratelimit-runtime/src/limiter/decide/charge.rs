//! Charges, which take permits whether they are free or not.

use std::sync::Arc;

use ratelimit_spec::{Mode, OnStoreError, shard_of};

use super::{Outcome, answer::Ready};
use crate::{
    Rejection, Settlement, StoreError, StoreErrorKind,
    limiter::{
        admin::both,
        core::Core,
        per_process::{counted_here, local_share},
        plan::Part,
        services::Services,
    },
    store::{Charge, Charged, MemoryStore},
};

impl Core {
    /// Takes permits whether they are free or not; permits that are not free become debt.
    pub(crate) async fn charge(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        permits: u64,
    ) -> Result<Settlement, StoreError> {
        let rule = self.rule(limits);
        let asked = u32::try_from(permits).unwrap_or(u32::MAX);
        let (permits, beyond) = (asked, permits - u64::from(asked));
        // No limit rejects a charge, not even one of rate 0.
        match self.ready_if(limits, &rule, 1, || true) {
            Ok(Ready::Decided(_)) => return Ok(Settlement::default()),
            Ok(Ready::Ask(..)) => {}
            Err(rejection) => return Err(unconfigured(&rejection)),
        }
        if let Some(shards) = rule.shards() {
            return self.charge_shards(limits, shards, permits, beyond).await;
        }
        let mut strictest = Ok(Settlement::default());
        for part in self.parts(&rule) {
            let begin = || limits.local.begin(limits, self, &rule);
            let charged = part.charge(limits, permits, begin).await;
            part.core.denials.forget();
            let one = charged.map(|Charged { taken, debt, excess }| Settlement {
                taken,
                debt,
                excess,
                ..Settlement::default()
            });
            strictest = both(strictest, one, Settlement::stricter);
        }
        self.denials.forget();
        let strictest = strictest?;
        Ok(Settlement { excess: strictest.excess + beyond, ..strictest })
    }

    /// Charges each shard its share of a cost, and then charges what a shard can no longer owe to the other shards.
    /// The share of a shard that fails is charged to no other.
    async fn charge_shards(
        &self,
        limits: &Arc<Services>,
        shards: &[Arc<Self>],
        permits: u32,
        beyond: u64,
    ) -> Result<Settlement, StoreError> {
        // In rotation, because the first shards pay the remainder.
        let shards: Vec<_> = self.in_rotation(shards).collect();
        let mut debts = vec![0; shards.len()];
        let (mut taken, mut left, mut failed) = (0, 0, Ok(()));
        for (n, shard) in (0..).zip(&shards) {
            let part = shard_of(permits, u32::try_from(shards.len()).unwrap_or(u32::MAX), n);
            match Box::pin(shard.charge(limits, part.into())).await {
                Ok(one) => {
                    (taken, left, debts[n as usize]) =
                        (taken + one.taken, left + one.excess, one.debt);
                }
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        for (debt, shard) in debts.iter_mut().zip(&shards) {
            if left > 0 {
                match Box::pin(shard.charge(limits, left)).await {
                    Ok(one) => (taken, left, *debt) = (taken + one.taken, one.excess, one.debt),
                    Err(error) => failed = failed.and(Err(error)),
                }
            }
        }
        failed?;
        let (debt, excess) = (debts.iter().sum(), left + beyond);
        Ok(Settlement { taken, debt, excess, ..Settlement::default() })
    }
}

impl Part<'_> {
    /// Charges one stored limiter, whichever side counts it.
    async fn charge(
        &self,
        limits: &Services,
        permits: u32,
        begin: impl Fn(),
    ) -> Result<Charged, StoreError> {
        let config = self.in_force();
        let charge = Charge::new(permits, self.max_debt());
        let counted =
            |store: &MemoryStore, config| store.charge_counted(&self.core.keys, config, charge).1;
        let here = config.mode == Mode::PerClient;
        if here && self.core.in_force().is_some() {
            return Ok(counted(&limits.per_client, counted_here(config)));
        }
        let (reply, charged) = match limits.store.charge(&self.request(limits), charge).await {
            Ok(charged) => charged,
            Err(_) if here => return Ok(counted(&limits.per_client, counted_here(config))),
            Err(error)
                if error.kind() != StoreErrorKind::Misconfigured
                    && self.numbers.effective.set.on_store_error() == OnStoreError::Local =>
            {
                begin();
                let charged = counted(&limits.local.counts, local_share(limits, config));
                if error.is_in_doubt() {
                    limits.local.excuse(limits, self, |known, share, now| {
                        let max_debt = charge.max_debt.unwrap_or_else(|| share.capacity());
                        known.charge(share, permits.into(), max_debt, now);
                    });
                }
                return Ok(charged);
            }
            Err(error) => return Err(error),
        };
        self.observe(limits, &reply);
        match reply.outcome {
            Outcome::Unknown => Err(unconfigured(&self.core.unknown())),
            Outcome::PerClient => Ok(counted(&limits.per_client, counted_here(reply.config))),
            _ => Ok(charged),
        }
    }
}

/// Returns why a charge failed.
fn unconfigured(rejection: &Rejection) -> StoreError {
    StoreError::misconfigured(rejection.to_string())
}
