//! The quota of a limiter, and how it is changed.

use super::Limiter;
use crate::{Quota, Quotas, RateChange, StoreError, store::WriteWhen};

impl Limiter {
    /// Returns the quotas in force, the shortest window first, or `None` if none is known or the limiter is disabled:
    /// the store's as of the last decision, or before any decision the configured ones. The store is not queried.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// let quotas = search.quotas().expect("it was created with one");
    /// assert_eq!(quotas[0].rate(), 10);
    ///
    /// assert!(limits.configured("unknown").quotas().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn quotas(&self) -> Option<Quotas> {
        let mut all = Vec::new();
        for core in self.cores() {
            all.extend(core.quotas(&self.limits)?);
        }
        all.sort_by_key(Quota::per);
        (!all.is_empty()).then(|| Quotas::stored(all))
    }

    /// Sets the quota if none is stored, and returns whether it did.
    ///
    /// All processes apply a quota that was set on purpose until a process starts that is configured
    /// differently, or the limits file of one changes its settings for this limiter.
    /// [`RateChange::hold`] keeps the quota for longer. If the key has several limits, the one with
    /// the same window and algorithm is changed.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits), and if a quota matches none of several
    /// limits, is one too many, or cannot be divided among shards. Nothing is written then. If one of several limits
    /// or shards cannot be written, the others are; [`set_rate`](Self::set_rate) then writes the rest.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.configured("search");
    ///
    /// assert!(search.try_set_rate(Quota::per_minute(10)).await?);
    /// assert!(!search.try_set_rate(Quota::per_minute(20)).await?, "one is stored");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_set_rate(&self, to: impl Into<RateChange>) -> Result<bool, StoreError> {
        self.change(to.into(), WriteWhen::Absent).await
    }

    /// Sets the quota unconditionally, and resets the usage unless the change
    /// [carries](RateChange::carry) it. The stored mode and keep-alive stay, unless the change sets them,
    /// or this process has others configured and has not used the limiter yet.
    ///
    /// # Errors
    ///
    /// As for [`try_set_rate`](Self::try_set_rate).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// search.acquire(8).await?;
    ///
    /// search.set_rate(Quota::per_minute(20)).await?;
    /// assert_eq!(search.available_permits().await?, 20);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_rate(&self, to: impl Into<RateChange>) -> Result<(), StoreError> {
        self.change(to.into(), WriteWhen::Always).await.map(|_| ())
    }

    /// Changes the quota of a limiter that is stored, and returns whether there was one; otherwise as
    /// [`set_rate`](Self::set_rate).
    ///
    /// # Errors
    ///
    /// As for [`try_set_rate`](Self::try_set_rate).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    ///
    /// assert!(!search.update_rate(Quota::per_minute(20)).await?, "no call has stored it yet");
    /// search.acquire(1).await?;
    /// assert!(search.update_rate(Quota::per_minute(20)).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update_rate(&self, to: impl Into<RateChange>) -> Result<bool, StoreError> {
        self.change(to.into(), WriteWhen::Present).await
    }

    async fn change(&self, change: RateChange, when: WriteWhen) -> Result<bool, StoreError> {
        if !self.others.is_empty() {
            let names: Vec<&str> = self.cores().map(|core| &*core.family.key).collect();
            let names = names.join("`, `");
            return Err(StoreError::misconfigured(format!(
                "`{names}` are several limiters; change the rate of each"
            )));
        }
        self.core.write(&self.limits, &change, when).await
    }
}
