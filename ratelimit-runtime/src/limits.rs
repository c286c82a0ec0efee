//! The set of limits a program goes by.

mod builder;
mod file;
mod health;
mod heartbeat;
mod report;
mod scope;
mod validate;
mod watch;

use std::{fmt, future::Future, sync::Arc};

use once_cell::sync::OnceCell;
use ratelimit_spec::Network;

pub(crate) use self::scope::Observer;
#[cfg(feature = "tower")]
pub(crate) use self::scope::Scoped;
use self::scope::{SCOPE, Scope};
pub use self::{builder::LimitsBuilder, health::Health, scope::observe};
use crate::{
    Limiter, Settings, SetupError, StoreError,
    events::Event,
    limiter::Services,
    registry::Registry,
    report::{Report, Setting},
    settings::Keys,
    store::Member,
};

static INSTALLED: OnceCell<Limits> = OnceCell::new();

/// Sets the program's limits up from the limits file and the environment: the same as
/// `Limits::builder().install()`.
///
/// # Errors
///
/// Every problem of the limits file and the store that would not go away by itself.
///
/// # Examples
///
/// ```no_run
/// # async fn serve() {}
/// #[tokio::main]
/// async fn main() -> Result<(), ratelimit_runtime::SetupError> {
///     ratelimit_runtime::init().await?;
///     serve().await;
///     Ok(())
/// }
/// # #[cfg(not(all()))]
/// # mod tokio {}
/// ```
pub async fn init() -> Result<Limits, SetupError> {
    Limits::builder().install().await
}

/// A store, the numbers from the limits file, and the limiters made so far. Cheap to clone.
///
/// A program has one set, [installed](LimitsBuilder::install) at its start; tests make as many as
/// they like and run annotated functions in a [`scope`](Self::scope).
#[derive(Clone)]
pub struct Limits {
    services: Arc<Services>,
    made: Arc<Made>,
}

/// The limiters so far, and what the numbers are read from.
struct Made {
    registry: Registry,
    source: file::Source,
    shadow: Option<bool>,
    /// The settings of the program that stay what they were at its start.
    settings: [Setting; 2],
    /// Those of the limits file are in force if there are none here.
    #[cfg_attr(
        not(feature = "_web"),
        expect(dead_code, reason = "only web frameworks have clients")
    )]
    trusted_proxies: Option<Vec<Network>>,
}

impl Limits {
    /// Starts to set limits up; see [`LimitsBuilder`].
    pub fn builder() -> LimitsBuilder {
        LimitsBuilder::default()
    }

    /// The limits of the code that asks: those of the innermost [`scope`](Self::scope), else the
    /// installed ones, else the default, which is made on first use from the limits file and the
    /// environment.
    #[must_use]
    pub fn current() -> Self {
        Self::with_scope(|limits, _| limits.clone())
    }

    /// Runs a future with these limits: annotated functions inside use them. Tasks it spawns do
    /// not inherit them; what this returns borrows nothing of these limits, so that it can be spawned itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Rejection, rate_limit};
    ///
    /// #[rate_limit(key = "ping", rate = 1, per = "1h", wait = "none")]
    /// async fn ping() -> Result<(), Rejection> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// for _ in 0..2 {
    ///     let limits = Limits::builder().memory().build().await?;
    ///     limits.scope(async {
    ///         assert!(ping().await.is_ok());
    ///         assert!(ping().await.is_err());
    ///     }).await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        SCOPE.scope(Scope::with(self), future)
    }

    /// Returns the limiter with this name, creating it if necessary. What the limits file says for it
    /// under `limiters`, then `prefixes`, takes precedence over `settings`, setting by setting. A
    /// [`Quota`](crate::Quota) or [`Quotas`](crate::Quotas) alone are settings.
    ///
    /// Any text is a safe name. One that only consists of what keys may hold is used as it is, so
    /// that `orders:42` is the limiter of `"orders:{user_id}"` for 42, or of a Java service.
    #[must_use]
    pub fn limiter(&self, name: &str, settings: impl Into<Settings>) -> Limiter {
        let settings = settings.into();
        let core = self.registry().named(&self.services, name, Keys::One, Some(&settings));
        core.give(&self.services, &settings);
        Limiter::new(core, Arc::clone(&self.services))
    }

    /// The limiter of this name with the quota of the limits file: its entry under `limiters`, the
    /// first matching one under `prefixes`, or `default`.
    ///
    /// When there is none of them, whatever the store holds is right: so a limiter that belongs to a
    /// Java service is used without repeating its numbers. When the store holds nothing either, the
    /// limiter refuses, as [`NotConfigured`](crate::Reason::NotConfigured).
    #[must_use]
    pub fn configured(&self, name: &str) -> Limiter {
        let core = self.registry().named(&self.services, name, Keys::Many, None);
        Limiter::new(core, Arc::clone(&self.services))
    }

    /// Whether this is the address of a proxy whose word about its clients counts.
    #[cfg(feature = "_web")]
    pub(crate) fn trusts(&self, address: std::net::IpAddr) -> bool {
        let contains = |proxies: &[Network]| proxies.iter().any(|proxy| proxy.contains(address));
        match &self.made.trusted_proxies {
            Some(proxies) => contains(proxies),
            None => contains(self.services.current().trusted_proxies()),
        }
    }

    /// Reads the limits file again. Limiters take their new numbers with their next call, which
    /// calls that wait make at once, and state them to the store once. The store itself, `key_prefix`, `deadline`, `max_remembered` and
    /// `tls_ca` stay what
    /// they were when the program started.
    ///
    /// # Errors
    ///
    /// Every problem of the file; the old limits stay in force then.
    pub fn reload(&self) -> Result<(), SetupError> {
        let Made { source, shadow, .. } = &*self.made;
        reload(&self.services, source, *shadow)
    }

    /// Returns whether the store replies and whether the limits file that was read last is in force, as far as this process
    /// knows. It queries nothing, so that a readiness probe may call it as often as it likes.
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
        Health::of(&self.services)
    }

    /// Ends these limits: for a graceful shutdown, after the last request was served.
    ///
    /// - Calls that wait are rejected, as [`StoreUnavailable`](crate::Reason::StoreUnavailable), and so are all calls
    ///   from now on that need permits. A function that cannot return a rejection is counted by this process alone, as
    ///   during an outage, and waits until its permits are free there.
    /// - What is to be given back or settled is sent to Redis, of dropped calls too.
    /// - This process leaves those that share the store: the others divide the quota of an outage without it, at once.
    /// - The connections are closed and the thread `ratelimit` ends. Afterwards, other methods of a limiter on Redis
    ///   return an error of kind [`Unavailable`](crate::StoreErrorKind::Unavailable).
    ///
    /// That takes no longer than the `deadline` of a decision; what does not succeed by then is given up. A second call
    /// does nothing. [`health`](Self::health) is an error from the first call on.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Limits, Quota, Reason};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().build().await?;
    /// let search = limits.limiter("search", Quota::per_second(100));
    /// limits.shutdown().await;
    /// let rejection = search.try_acquire(1).await.unwrap_err();
    /// assert_eq!(rejection.reason(), Reason::StoreUnavailable);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self) {
        let services = Arc::clone(&self.services);
        self.services.shut_down(async move { heartbeat::leave(&services).await }).await;
    }

    /// Every limiter with its numbers, where each number came from, its call sites, and what it did
    /// so far.
    #[must_use]
    pub fn report(&self) -> Report {
        report::report(self)
    }

    /// The processes that share the store, as their last heartbeats describe them.
    pub(crate) async fn members(&self) -> Result<Vec<Member>, StoreError> {
        self.services.store.members(&self.services.key_prefix).await
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.made.registry
    }
}

/// Reads the limits file again; a bad one leaves everything as it is.
fn reload(
    services: &Services,
    source: &file::Source,
    shadow: Option<bool>,
) -> Result<(), SetupError> {
    let read = services.limits.renew(|current| {
        let (file, warnings) = validate::load(source, shadow)?;
        Ok((current.read_again(file.map(|file| file.limits), shadow), warnings))
    });
    match read {
        Ok(warnings) => {
            services.events.emit(&Event::Reloaded);
            warnings.iter().for_each(|warning| services.events.emit(warning));
            Ok(())
        }
        Err(error) => {
            services.events.emit(&Event::ReloadFailed { error: error.clone() });
            Err(error)
        }
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").field("store", &self.services.store).finish_non_exhaustive()
    }
}
