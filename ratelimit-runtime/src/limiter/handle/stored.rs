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
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Mode, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// assert!(search.config().await?.is_none());
    ///
    /// search.acquire(1).await?;
    /// let stored = search.config().await?.expect("the call stored it");
    /// assert_eq!(stored.quotas[0], Quota::per_minute(10));
    /// assert_eq!(stored.mode, Mode::Overall);
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// assert!(!search.exists().await?);
    ///
    /// search.acquire(1).await?;
    /// assert!(search.exists().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exists(&self) -> Result<bool, StoreError> {
        Ok(self.config().await?.is_some())
    }

    /// Deletes the limiter with its usage and its penalty, and returns whether it existed. The next
    /// request of a process that has a configuration for it creates it again.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// search.acquire(10).await?;
    ///
    /// assert!(search.delete().await?);
    /// let permit = search.try_acquire(1).await?;
    /// assert_eq!(permit.remaining(), 9);
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let campaign = limits.limiter("campaign", Quota::per_minute(10));
    /// campaign.acquire(1).await?;
    ///
    /// let day = Duration::from_secs(86_400);
    /// assert!(campaign.expire(day).await?);
    /// assert!(campaign.ttl().await? <= Some(day));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn expire(&self, after: Duration) -> Result<bool, StoreError> {
        self.set_expiry(Expiry::At(expiry_ms(after))).await
    }

    /// Removes the expiry, and returns whether there was one.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let campaign = limits.limiter("campaign", Quota::per_minute(10));
    /// campaign.acquire(1).await?;
    /// campaign.expire(Duration::from_secs(86_400)).await?;
    ///
    /// assert!(campaign.clear_expire().await?);
    /// assert_eq!(campaign.ttl().await?, None);
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let tenant = limits.limiter("tenant", Quota::per_minute(10));
    /// tenant.acquire(1).await?;
    ///
    /// let week = Some(Duration::from_secs(7 * 86_400));
    /// assert!(tenant.set_keep_alive(week).await?);
    /// assert_eq!(tenant.config().await?.and_then(|stored| stored.keep_alive), week);
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// search.acquire(1).await?;
    /// assert_eq!(search.ttl().await?, None);
    ///
    /// search.expire(Duration::from_secs(3600)).await?;
    /// assert!(search.ttl().await? > Some(Duration::from_secs(3590)));
    /// # Ok(())
    /// # }
    /// ```
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
