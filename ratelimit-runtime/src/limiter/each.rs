//! What is done to a key is done to each of its limits, and to each part of one that is split; a quota
//! is set for the limit it belongs to.

use std::{sync::Arc, time::Duration};

use super::Core;
use crate::{
    LimiterConfig, Quota, Quotas, RateChange, StoreError,
    limits::Inner,
    store::{Config, Expiry, WriteWhen},
};

/// Permits that are given back to several limiters: to each limit all of them, and to each part of one
/// that is split what the ones before it had not.
pub(super) struct GivenBack {
    permits: u32,
    split: bool,
    /// How many there were to give back.
    pub(super) all: u64,
}

impl GivenBack {
    pub(super) fn new(permits: u32, split: bool) -> Self {
        Self { permits, split, all: 0 }
    }

    /// How many to give back to the next one.
    pub(super) fn next(&self) -> u32 {
        let given = if self.split { self.all } else { 0 };
        self.permits.saturating_sub(u32::try_from(given).unwrap_or(u32::MAX))
    }

    pub(super) fn add(&mut self, released: u64) {
        self.all = if self.split { self.all + released } else { self.all.max(released) };
    }
}

impl Core {
    /// Permits that every limit has.
    pub(crate) async fn available_in_each(
        self: &Arc<Self>,
        limits: &Inner,
    ) -> Result<u64, StoreError> {
        if let Some(shards) = self.shards(limits) {
            let mut sum = 0;
            for shard in &*shards {
                sum += shard.available(limits).await?;
            }
            return Ok(sum);
        }
        let mut least = u64::MAX;
        for core in self.limiters(limits) {
            least = least.min(core.available(limits).await?);
        }
        Ok(least)
    }

    /// Gives permits back to all limits, after what is owed; says how many were given back at the most.
    pub(crate) async fn release_in_each(
        self: &Arc<Self>,
        limits: &Inner,
        permits: u32,
    ) -> Result<u64, StoreError> {
        let repaid = self.repay(permits);
        if repaid == permits {
            return Ok(repaid.into());
        }
        let mut back = GivenBack::new(permits - repaid, self.shards(limits).is_some());
        for core in self.limiters(limits) {
            back.add(core.release(limits, back.next()).await?);
        }
        self.changed();
        Ok(back.all + u64::from(repaid))
    }

    /// Writes each quota where it belongs; its share of it to each part.
    pub(crate) async fn write_change(
        self: &Arc<Self>,
        limits: &Inner,
        change: &RateChange,
        when: WriteWhen,
    ) -> Result<bool, StoreError> {
        let named = self.named(limits, &change.quotas)?;
        let mut written = false;
        for (core, quota) in &named {
            written |= core.write(limits, quota, change, when).await?;
        }
        if written {
            self.write_beside(limits, change, &named).await?;
        }
        self.changed();
        Ok(written)
    }

    /// The limiters that quotas are written to.
    fn named(
        self: &Arc<Self>,
        limits: &Inner,
        quotas: &Quotas,
    ) -> Result<Vec<(Arc<Self>, Quota)>, StoreError> {
        if let (Some(_), [quota]) = (self.shards(limits), quotas.as_slice()) {
            return Ok(self.limiters(limits).into_iter().map(|core| (core, *quota)).collect());
        }
        let mut named = Vec::<(Arc<Self>, Quota)>::new();
        for quota in quotas.as_slice() {
            let core = self.limiter_of(limits, quota)?;
            if named.iter().any(|(known, _)| Arc::ptr_eq(known, &core)) {
                return Err(StoreError::misconfigured(format!(
                    "`{quotas}` are several limits, and `{}` has one; write one quota",
                    self.family.key
                )));
            }
            named.push((core, *quota));
        }
        Ok(named)
    }

    /// Writes what a change says of all limits of the key: their mode and keep-alive.
    async fn write_beside(
        self: &Arc<Self>,
        limits: &Inner,
        change: &RateChange,
        named: &[(Arc<Self>, Quota)],
    ) -> Result<(), StoreError> {
        for core in self.limiters(limits) {
            let is_named = named.iter().any(|(known, _)| Arc::ptr_eq(known, &core));
            if change.mode.is_some()
                && !is_named
                && let Some(stored) = limits.store.read(&core.keys).await?
            {
                core.write(limits, &stored.quota(), change, WriteWhen::Present).await?;
            }
            if let Some(idle) = change.keep_alive {
                core.keep_alive(limits, idle).await?;
            }
        }
        Ok(())
    }

    /// What is stored of each limit; of parts, what they are together.
    pub(crate) async fn stored_config(
        self: &Arc<Self>,
        limits: &Inner,
    ) -> Result<Option<LimiterConfig>, StoreError> {
        let (split, mut stored) = (self.shards(limits).is_some(), Vec::<Config>::new());
        for core in self.limiters(limits) {
            let Some(config) = limits.store.read(&core.keys).await? else { continue };
            match stored.first_mut().filter(|_| split) {
                Some(whole) => {
                    (whole.rate, whole.burst) =
                        (whole.rate + config.rate, whole.burst + config.burst);
                }
                None => stored.push(config),
            }
        }
        Ok(LimiterConfig::of(&stored))
    }

    pub(crate) async fn exists_any(self: &Arc<Self>, limits: &Inner) -> Result<bool, StoreError> {
        for core in self.limiters(limits) {
            if limits.store.read(&core.keys).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) async fn delete_each(self: &Arc<Self>, limits: &Inner) -> Result<bool, StoreError> {
        let deleted = self.in_each(limits, |core| async move { core.delete(limits).await });
        let deleted = deleted.await?;
        self.changed();
        Ok(deleted)
    }

    pub(crate) async fn expire_each(
        self: &Arc<Self>,
        limits: &Inner,
        expiry: Expiry,
    ) -> Result<bool, StoreError> {
        self.in_each(limits, |core| async move { core.expire(limits, expiry).await }).await
    }

    pub(crate) async fn keep_each_alive(
        self: &Arc<Self>,
        limits: &Inner,
        idle: Option<Duration>,
    ) -> Result<bool, StoreError> {
        self.in_each(limits, |core| async move { core.keep_alive(limits, idle).await }).await
    }

    /// Does something to each of them; whether it changed any.
    async fn in_each<F: Future<Output = Result<bool, StoreError>>>(
        self: &Arc<Self>,
        limits: &Inner,
        act: impl Fn(Arc<Self>) -> F,
    ) -> Result<bool, StoreError> {
        let mut changed = false;
        for core in self.limiters(limits) {
            changed |= act(core).await?;
        }
        Ok(changed)
    }

    /// How long the limit has left that has the longest; nothing when one does not expire.
    pub(crate) async fn longest_ttl(
        self: &Arc<Self>,
        limits: &Inner,
    ) -> Result<Option<Duration>, StoreError> {
        if self.shards(limits).is_some() {
            let mut longest = None;
            for core in self.limiters(limits) {
                longest = longest.max(limits.store.ttl(&core.keys).await?);
            }
            return Ok(longest);
        }
        let mut longest = Some(Duration::ZERO);
        for core in self.limiters(limits) {
            longest = longest.zip(limits.store.ttl(&core.keys).await?).map(|(a, b)| a.max(b));
        }
        Ok(longest)
    }
}
