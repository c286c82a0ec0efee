//! What is stored of a limiter, and for how long.

use std::{ops::BitOr, time::Duration};

use super::Limiter;
use crate::{LimiterConfig, StoreError, clock::expiry_ms, limiter::admin::both, store::Expiry};

impl Limiter {
    /// Returns the stored configuration, or `None` if the limiter is not stored.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn config(&self) -> Result<Option<LimiterConfig>, StoreError> {
        let mut stored = Vec::new();
        for core in self.cores() {
            stored.extend(core.stored(&self.limits).await?);
        }
        Ok(LimiterConfig::of(&stored))
    }

    /// Returns whether the limiter is stored.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn exists(&self) -> Result<bool, StoreError> {
        Ok(self.config().await?.is_some())
    }

    /// Deletes the limiter with its usage and its penalty, and returns whether it existed. The next
    /// request of a process that has a configuration for it creates it again.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn delete(&self) -> Result<bool, StoreError> {
        let mut deleted = Ok(false);
        for core in self.cores() {
            deleted = both(deleted, core.delete(&self.limits).await, bool::bitor);
        }
        deleted
    }

    /// Lets the limiter expire after this time, in whole milliseconds, and returns whether it
    /// exists. If a keep-alive is set, it replaces this time when a grant renews it.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn expire(&self, after: Duration) -> Result<bool, StoreError> {
        self.set_expiry(Expiry::At(expiry_ms(after))).await
    }

    /// Removes the expiry, and returns whether there was one.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn clear_expire(&self) -> Result<bool, StoreError> {
        self.set_expiry(Expiry::Cleared).await
    }

    /// Lets the limiter expire once it was idle for this long, in whole milliseconds, or never with
    /// `None`; returns whether it exists. This is the stored keep-alive: the `keep_alive` of the
    /// limits file replaces it when a process starts that has one. A time in which permits still count is
    /// used if it is longer.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn set_keep_alive(&self, idle: Option<Duration>) -> Result<bool, StoreError> {
        let mut changed = Ok(false);
        for core in self.cores() {
            changed = both(changed, core.keep_alive(&self.limits, idle).await, bool::bitor);
        }
        changed
    }

    /// Returns the time until the limiter, or the last of its limits, expires, or `None` if it never does or is not
    /// stored.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    pub async fn ttl(&self) -> Result<Option<Duration>, StoreError> {
        let mut longest = self.core.ttl(&self.limits).await?;
        for core in &self.others {
            let one = core.ttl(&self.limits).await?;
            longest = longest.zip(one).map(|(a, b)| a.max(b));
        }
        Ok(longest)
    }

    async fn set_expiry(&self, expiry: Expiry) -> Result<bool, StoreError> {
        let mut changed = Ok(false);
        for core in self.cores() {
            changed = both(changed, core.expire(&self.limits, expiry).await, bool::bitor);
        }
        changed
    }
}
