//! A deliberate change of a limiter's quota, and the stored configuration.

use std::time::Duration;

use crate::{
    Mode, Quota, Quotas,
    store::{Config, KeepState, StoredConfig},
};

/// A change of a limiter's quota, for [`Limiter::set_rate`](crate::Limiter::set_rate) and similar
/// methods. A [`Quota`] or [`Quotas`] converts to a change that resets the usage.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Limits, Quota, RateChange};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().build().await?;
/// let minute = Duration::from_secs(60);
/// let search = limits.limiter("search", Quota::new(10, minute)?);
/// search.acquire(8).await?;
///
/// let lower = RateChange::new(Quota::new(9, minute)?).carry();
/// assert!(search.update_rate(lower).await?);
/// assert_eq!(search.available_permits().await?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RateChange {
    pub(super) quotas: Quotas,
    carry: bool,
    pub(super) mode: Option<ratelimit_spec::Mode>,
    pub(super) keep_alive: Option<Option<Duration>>,
    pub(super) hold: Duration,
}

impl RateChange {
    /// Creates a change to these quotas that resets the usage. The stored mode and keep-alive stay.
    ///
    /// If the limiter has [several limits](crate::guide::several_limits), each quota changes the limit
    /// with the same window and algorithm.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota, RateChange};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// search.acquire(8).await?;
    ///
    /// search.set_rate(RateChange::new(Quota::per_minute(5))).await?;
    /// assert_eq!(search.available_permits().await?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(quotas: impl Into<Quotas>) -> Self {
        let (quotas, hold) = (quotas.into(), Duration::ZERO);
        Self { quotas, carry: false, mode: None, keep_alive: None, hold }
    }

    /// Keeps counting permits in use, even if they are more than the new quota: Redisson's `keepState`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Quota, RateChange};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// search.acquire(8).await?;
    ///
    /// search.set_rate(RateChange::new(Quota::per_minute(5)).carry()).await?;
    /// assert_eq!(search.available_permits().await?, 0, "8 of 5 are in use");
    /// # Ok(())
    /// # }
    /// ```
    pub fn carry(mut self) -> Self {
        self.carry = true;
        self
    }

    /// Keeps the change in force for this long, in whole milliseconds, even if processes start that are
    /// configured differently: the emergency brake. Afterwards the newest of them replaces it and
    /// carries permits in use. A further change ends the hold of this one. The keep-alive of a limiter
    /// that expires is raised to this time, so that the limiter does not expire with its hold.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Limits, Quota, RateChange};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let second = Duration::from_secs(1);
    /// let search = limits.limiter("search", Quota::new(100, second)?);
    ///
    /// let brake = RateChange::new(Quota::new(20, second)?).carry().hold(Duration::from_secs(7200));
    /// search.set_rate(brake).await?;
    /// let stored = search.config().await?.expect("it was just written");
    /// assert!(stored.held_for > Some(Duration::from_secs(7000)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold(mut self, how_long: Duration) -> Self {
        self.hold = how_long;
        self
    }

    /// Sets the mode too. Another mode starts without permits in use, even with [`carry`](Self::carry).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratelimit_runtime::{Limits, Mode, Quota, RateChange};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    ///
    /// let each = RateChange::new(Quota::per_minute(10)).mode(Mode::PerClient);
    /// search.set_rate(each).await?;
    /// assert_eq!(search.config().await?.map(|stored| stored.mode), Some(Mode::PerClient));
    /// # Ok(())
    /// # }
    /// ```
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode.word());
        self
    }

    /// Sets how long an idle limiter is kept, in whole milliseconds, or with `None` that it is kept
    /// for good. A time in which permits still count, or for which the change is [held](Self::hold), is
    /// used if it is longer.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Quota, RateChange};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(10));
    /// let day = Some(Duration::from_secs(86_400));
    ///
    /// search.set_rate(RateChange::new(Quota::per_minute(20)).keep_alive(day)).await?;
    /// assert_eq!(search.config().await?.and_then(|stored| stored.keep_alive), day);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep_alive(mut self, idle: Option<Duration>) -> Self {
        self.keep_alive = Some(idle);
        self
    }

    pub(super) fn state(&self) -> KeepState {
        if self.carry { KeepState::Keep } else { KeepState::Reset }
    }
}

impl From<Quota> for RateChange {
    fn from(quota: Quota) -> Self {
        Self::new(quota)
    }
}

impl From<Quotas> for RateChange {
    fn from(quotas: Quotas) -> Self {
        Self::new(quotas)
    }
}

/// The stored configuration of a limiter: [`Limiter::config`](crate::Limiter::config).
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
///
/// let stored = search.config().await?.expect("the call stored it");
/// assert_eq!(stored.quotas.to_string(), "10 per 1m");
/// assert_eq!(stored.keep_alive, None);
/// assert_eq!(stored.held_for, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterConfig {
    /// The quotas that all processes apply.
    pub quotas: Quotas,
    /// Whether all processes share one budget, or each has its own.
    pub mode: Mode,
    /// How long an idle limiter is kept, or `None` if it is kept for good.
    pub keep_alive: Option<Duration>,
    /// How long the configuration stays in force even if other processes start, or `None` if it is not
    /// held: [`RateChange::hold`]. With several limits, the longest.
    pub held_for: Option<Duration>,
}

impl LimiterConfig {
    /// The stored configuration of all limits of a key.
    pub(super) fn of(stored: &[StoredConfig]) -> Option<Self> {
        let first: &Config = &stored.first()?.config;
        let quotas: Vec<Quota> = stored.iter().map(|one| one.config.quota()).collect();
        let held_for_ms = stored.iter().map(|one| one.held_for_ms).max().unwrap_or(0);
        Some(Self {
            quotas: Quotas::stored(quotas),
            mode: Mode::of(first.mode),
            keep_alive: (first.keep_alive_ms > 0)
                .then(|| Duration::from_millis(first.keep_alive_ms)),
            held_for: (held_for_ms > 0).then(|| Duration::from_millis(held_for_ms)),
        })
    }
}
