//! The health of the store and of the limits file.

use super::Limits;
use crate::{SetupError, StoreError, limiter::Services};

/// The health of the store and the limits file; see [`Limits::health`](crate::Limits::health).
///
/// Neither problem stops the limits: `on_store_error` decides while the store is unavailable, and the last good
/// limits file stays in force. The program decides whether a process with such a problem is ready.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Health, Limits};
///
/// fn shown(health: &Health) -> String {
///     match (&health.store, &health.limits_file) {
///         (Err(error), _) => format!("store: {error}"),
///         (Ok(()), Err(error)) => format!("limits file: {error}"),
///         (Ok(()), Ok(())) => "ok".to_owned(),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Limits::builder().memory().build().await?;
/// assert_eq!(shown(&limits.health()), "ok");
/// limits.shutdown().await;
/// assert_eq!(shown(&limits.health()), "store: rate limits are shut down");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The reason why calls are not sent to the store, or `Ok` if they are. A call that fails changes it at once; a
    /// process without calls notices by its heartbeat, within about 15 seconds. It is `Ok` again as soon as a
    /// background probe finds the store, at most a second and a `deadline` after the store is back. A cluster is `Ok` if all
    /// nodes that were needed reply. The embedded store is always `Ok`, unless a test makes it fail. After
    /// [`Limits::shutdown`](crate::Limits::shutdown) it is an error.
    pub store: Result<(), StoreError>,
    /// The problems of the limits file if the last reload failed, until one succeeds.
    pub limits_file: Result<(), SetupError>,
}

impl Health {
    fn of(services: &Services) -> Self {
        let failure = services.broken.clone().or_else(|| services.limits.failure());
        let shut_down = services.is_shut_down();
        let store = if shut_down { Err(StoreError::shut_down()) } else { services.store.health() };
        Self { store, limits_file: failure.map_or(Ok(()), Err) }
    }

    /// Returns whether the store replies and the limits file is in force.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().build().await?;
    /// assert!(limits.health().is_ok());
    /// limits.shutdown().await;
    /// assert!(!limits.health().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.store.is_ok() && self.limits_file.is_ok()
    }
}

impl Limits {
    /// Returns whether the store replies and whether the limits file that was read last is in force, as far as this process
    /// knows. It does not query the store, so a readiness probe may call it at any rate.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// fn ready(limits: &Limits) -> u16 {
    ///     if limits.health().is_ok() { 200 } else { 503 }
    /// }
    /// ```
    #[must_use]
    pub fn health(&self) -> Health {
        Health::of(self.services())
    }
}
