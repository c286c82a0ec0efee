//! What is done to a key is done to each of its limits; a quota is set for the one it belongs to.

use std::{sync::Arc, time::Duration};

use super::Core;
use crate::{
    Quota, StoreError,
    limits::Inner,
    store::{Expiry, KeepState, WriteWhen},
};

impl Core {
    /// Permits that every limit has.
    pub(crate) async fn available_in_each(
        self: &Arc<Self>,
        limits: &Inner,
    ) -> Result<u64, StoreError> {
        let mut least = u64::MAX;
        for core in self.limiters(limits) {
            least = least.min(core.available(limits).await?);
        }
        Ok(least)
    }

    /// Gives permits back to all limits; says how many were given back at the most.
    pub(crate) async fn release_in_each(
        self: &Arc<Self>,
        limits: &Inner,
        permits: u32,
    ) -> Result<u64, StoreError> {
        let mut most = 0;
        for core in self.limiters(limits) {
            most = most.max(core.release(limits, permits).await?);
        }
        self.changed();
        Ok(most)
    }

    /// Writes a quota where it belongs.
    pub(crate) async fn write_one(
        self: &Arc<Self>,
        limits: &Inner,
        quota: &Quota,
        when: WriteWhen,
        state: KeepState,
    ) -> Result<bool, StoreError> {
        let core = self.limiter_of(limits, quota)?;
        let written = core.write(limits, quota, when, state).await?;
        self.changed();
        Ok(written)
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
        let mut deleted = false;
        for core in self.limiters(limits) {
            deleted |= core.delete(limits).await?;
        }
        self.changed();
        Ok(deleted)
    }

    pub(crate) async fn expire_each(
        self: &Arc<Self>,
        limits: &Inner,
        expiry: Expiry,
    ) -> Result<bool, StoreError> {
        let mut changed = false;
        for core in self.limiters(limits) {
            changed |= core.expire(limits, expiry).await?;
        }
        Ok(changed)
    }

    pub(crate) async fn keep_each_alive(
        self: &Arc<Self>,
        limits: &Inner,
        idle: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let mut changed = false;
        for core in self.limiters(limits) {
            changed |= core.keep_alive(limits, idle).await?;
        }
        Ok(changed)
    }

    /// How long the limit has left that has the longest; nothing when one does not expire.
    pub(crate) async fn longest_ttl(
        self: &Arc<Self>,
        limits: &Inner,
    ) -> Result<Option<Duration>, StoreError> {
        let mut longest = Some(Duration::ZERO);
        for core in self.limiters(limits) {
            longest = longest.zip(limits.store.ttl(&core.keys).await?).map(|(a, b)| a.max(b));
        }
        Ok(longest)
    }
}
