//! The settings of a limiter in code.

use std::time::Duration;

use ratelimit_spec as spec;

use super::{Penalty, written};
use crate::{Mode, OnDrift, OnStoreError, Quota, Quotas, Wait, clock::expiry_ms};

/// The settings of a limiter in code, for [`Limits::limiter`](crate::Limits::limiter): its quotas,
/// and the other settings of a limits file. A [`Quota`] or [`Quotas`] alone are settings, too.
///
/// The limits file takes precedence, setting by setting; a setting that neither of them sets comes
/// from the file's `default`.
///
/// With the feature `serde`, settings can be a part of another configuration file (YAML, JSON, TOML), with the fields
/// and the messages of an entry under `limiters`; `enabled`, `max_keys`, `refund_on`, `shards` and
/// `overrides` are for the limits file alone.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limits, Mode, OnStoreError, Quota, Settings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().build().await?;
/// let payments = Settings::new(Quota::per_second(10))
///     .mode(Mode::PerClient)
///     .on_store_error(OnStoreError::Reject);
/// limits.limiter("payments", payments).acquire(1).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Settings(spec::Settings);

impl Settings {
    /// Creates settings with these quotas; everything else is left to the limits file and the defaults.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Quota, Quotas, Settings};
    ///
    /// let quota = Quota::per_second(10);
    /// assert_eq!(Settings::new(quota), quota.into());
    ///
    /// let quotas = Quotas::new([quota, Quota::per_hour(1000)])?;
    /// let settings = Settings::new(quotas).max_waiters(50);
    /// # let _ = settings;
    /// # Ok::<(), ratelimit_runtime::QuotaError>(())
    /// ```
    pub fn new(quotas: impl Into<Quotas>) -> Self {
        Self(match &*quotas.into() {
            [quota] => spec::Settings {
                rate: u32::try_from(quota.rate()).ok(),
                per: Some(spec::Per {
                    length: quota.per(),
                    unit: quota.rule().calendar().map(|calendar| calendar.unit),
                }),
                time_zone: quota.rule().calendar().map(|calendar| calendar.zone),
                algorithm: Some(quota.rule().algorithm()),
                burst: quota.rule().burst(),
                warm_up: quota.warm_up(),
                ..spec::Settings::default()
            },
            several => spec::Settings {
                limits: Some(several.iter().map(written).collect()),
                ..spec::Settings::default()
            },
        })
    }

    /// Sets which processes share the budget; all of them by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Mode, Quota, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let settings = Settings::new(Quota::per_second(50)).mode(Mode::PerClient);
    /// let database = limits.limiter("database", settings);
    /// database.acquire(1).await?;
    ///
    /// let stored = database.config().await?;
    /// assert_eq!(stored.map(|config| config.mode), Some(Mode::PerClient));
    /// # Ok(())
    /// # }
    /// ```
    pub fn mode(self, mode: Mode) -> Self {
        self.with(|layer| layer.mode = Some(mode.word()))
    }

    /// Sets how long a call may wait if the caller does not specify it, such as in a web layer. The
    /// methods of a [`Limiter`](crate::Limiter) wait as their names say.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(feature = "tower")] {
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Limits, Quota, Settings, Wait, tower::Limit};
    ///
    /// let settings = Settings::new(Quota::per_second(10)).wait(Wait::UpTo(Duration::from_secs(2)));
    /// let exports = Limit::new("exports", settings);
    ///
    /// # let limits = Limits::builder().memory().no_limits_file().build().await?;
    /// let report = limits.report();
    /// let wait = report.limiter("exports").and_then(|limiter| limiter.setting("wait"));
    /// assert_eq!(wait.map(|wait| &*wait.value), Some("2s"));
    /// # drop(exports);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(self, wait: Wait) -> Self {
        self.with(|layer| layer.wait = Some(wait.word()))
    }

    /// Sets how calls are decided while the store is unavailable; by default this process counts calls
    /// against its share of the quota.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(feature = "test-util")] {
    /// use ratelimit_runtime::{OnStoreError, Quota, Settings, StoreErrorKind, test_util};
    ///
    /// let (limits, _time) = test_util::limits();
    /// let settings = Settings::new(Quota::per_minute(1)).on_store_error(OnStoreError::Allow);
    /// let search = limits.limiter("search", settings);
    ///
    /// test_util::set_store_error(&limits, Some(StoreErrorKind::Unavailable));
    /// for _ in 0..3 {
    ///     assert!(search.try_acquire(1).await?.is_degraded());
    /// }
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_store_error(self, on_store_error: OnStoreError) -> Self {
        self.with(|layer| layer.on_store_error = Some(on_store_error.word()))
    }

    /// Sets what happens to permits in use when the configured quota changes; by default they are
    /// discarded.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, OnDrift, Quota, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_hour(100));
    /// search.try_acquire(60).await?;
    ///
    /// let more = Settings::new(Quota::per_hour(500)).on_drift(OnDrift::Carry);
    /// let permit = limits.limiter("search", more).try_acquire(1).await?;
    /// assert_eq!(permit.remaining(), 439, "the 60 permits still count");
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_drift(self, on_drift: OnDrift) -> Self {
        self.with(|layer| layer.on_drift = Some(on_drift.word()))
    }

    /// Sets when a key that is rejected repeatedly is blocked, and for how long. It has no effect on a
    /// limiter in mode [`PerClient`](Mode::PerClient), or one that the limits file splits into shards.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Limits, Penalty, Quota, Reason, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let penalty = Penalty::new(1, Duration::from_secs(300)).up_to(Duration::from_secs(86_400));
    /// let login = limits.limiter("login:ada", Settings::new(Quota::per_minute(1)).penalty(penalty));
    ///
    /// login.try_acquire(1).await?;
    /// let rejection = login.try_acquire(1).await.unwrap_err();
    /// assert_eq!(rejection.reason(), Reason::Blocked);
    /// assert_eq!(rejection.retry_after(), Some(Duration::from_secs(300)));
    ///
    /// login.lift_penalty().await?;
    /// assert_eq!(login.peek(1).await.unwrap_err().reason(), Reason::Limited);
    /// # Ok(())
    /// # }
    /// ```
    pub fn penalty(self, penalty: Penalty) -> Self {
        self.with(|layer| layer.penalty = Some(penalty.word()))
    }

    /// Sets how many calls of this process may wait at the same time; 10 000 by default. Calls beyond
    /// that are rejected.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Reason, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let settings = Settings::new(Quota::per_hour(1)).max_waiters(0);
    /// let report = limits.limiter("report", settings);
    ///
    /// report.acquire(1).await?;
    /// let rejection = report.acquire(1).await.unwrap_err();
    /// assert_eq!(rejection.reason(), Reason::QueueFull);
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_waiters(self, max_waiters: u32) -> Self {
        self.with(|layer| layer.max_waiters = Some(max_waiters))
    }

    /// Sets how many permits can be owed for costs that are known only afterwards; by default as many
    /// as the limiter can grant at once. A higher number counts as 2^32 − 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let settings = Settings::new(Quota::per_minute(1000)).max_debt(200);
    /// let tokens = limits.limiter("tokens", settings);
    ///
    /// let charged = tokens.charge(1500).await?;
    /// assert_eq!((charged.taken, charged.debt, charged.excess), (1000, 200, 300));
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_debt(self, max_debt: u64) -> Self {
        let max_debt = u32::try_from(max_debt).unwrap_or(u32::MAX);
        self.with(|layer| layer.max_debt = Some(max_debt))
    }

    /// Sets how long an idle limiter is kept in the store, in whole milliseconds. By default it is kept for good; one
    /// of a template with placeholders, for two windows and at least a minute.
    /// A time in which permits still count is used if it is longer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Limits, Quota, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let day = Duration::from_secs(86_400);
    /// let settings = Settings::new(Quota::per_minute(5)).keep_alive(day);
    /// let messages = limits.limiter("messages:ada", settings);
    ///
    /// messages.try_acquire(1).await?;
    /// assert!(messages.ttl().await? <= Some(day));
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep_alive(self, idle: Duration) -> Self {
        let idle = Duration::from_millis(expiry_ms(idle).max(1));
        self.with(|layer| layer.keep_alive = Some(idle))
    }

    /// Sets whether the limiter only counts the calls that it would reject, and admits them; see
    /// [`guide::shadow`](crate::guide::shadow).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let tried = Settings::new(Quota::per_minute(2)).shadow(true);
    /// let search = limits.limiter("search", tried);
    ///
    /// let mut rejected = 0;
    /// for _ in 0..5 {
    ///     rejected += u32::from(search.try_acquire(1).await?.shadowed().is_some());
    /// }
    /// assert_eq!(rejected, 3, "if the limit were enforced");
    /// # Ok(())
    /// # }
    /// ```
    pub fn shadow(self, shadow: bool) -> Self {
        self.with(|layer| layer.shadow = Some(shadow))
    }

    fn with(mut self, set: impl FnOnce(&mut spec::Settings)) -> Self {
        set(&mut self.0);
        self
    }

    pub(crate) fn of_layer(layer: &spec::Settings) -> Self {
        Self(layer.clone())
    }

    pub(crate) fn layer(&self) -> &spec::Settings {
        &self.0
    }
}

/// Settings that only a limits file can set.
#[cfg(feature = "serde")]
const OF_A_FILE: [&str; 4] = ["enabled", "max_keys", "refund_on", "shards"];

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Settings {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut names = spec::Settings::NAMES.to_vec();
        names.retain(|name| !OF_A_FILE.contains(name));
        spec::limits_file::settings_block(deserializer, "settings", &names).map(Self)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Settings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl From<Quota> for Settings {
    fn from(quota: Quota) -> Self {
        Self::new(quota)
    }
}

impl From<Quotas> for Settings {
    fn from(quotas: Quotas) -> Self {
        Self::new(quotas)
    }
}
