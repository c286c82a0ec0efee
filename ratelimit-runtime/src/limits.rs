//! The set of limits that a program uses.

mod builder;
mod call;
mod file;
mod health;
mod heartbeat;
mod idle;
mod proxies;
mod report;
mod scope;
mod validate;
mod watch;

use std::{
    collections::HashSet,
    fmt,
    future::Future,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use once_cell::sync::OnceCell;

pub use self::{builder::LimitsBuilder, health::Health, scope::observe};
pub(crate) use self::{call::Call, scope::Observer};
use self::{proxies::Proxies, scope::Scope};
use crate::{
    Limiter, Settings, SetupError,
    events::Event,
    limiter::Services,
    registry::{Registry, Sites},
    report::{Report, Setting},
    settings::Keys,
};

static INSTALLED: OnceCell<Limits> = OnceCell::new();

/// Sets up the program's limits from the limits file and the environment, like
/// `Limits::builder().install()`.
///
/// # Errors
///
/// Returns every problem of the limits file and the store that does not resolve by itself.
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

/// A set of rate limits: a store, the settings from the limits file, and the limiters created so far. Cheap to clone.
///
/// A program has one set, [installed](LimitsBuilder::install) at its start; tests create as many as
/// they need and run annotated functions in a [`scope`](Self::scope).
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limits, Quota};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Limits::builder().memory().build().await?;
/// limits.limiter("search", Quota::per_minute(1)).try_acquire(1).await?;
///
/// let same = limits.clone().limiter("search", Quota::per_minute(1));
/// assert!(same.try_acquire(1).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Limits {
    sites: Sites,
    made: Arc<Made>,
}

/// The limiters created so far, and the sources of their settings.
struct Made {
    services: Arc<Services>,
    registry: Arc<Registry>,
    origin: Arc<Origin>,
    /// The program's settings that never change after startup.
    settings: [Setting; 2],
    #[cfg_attr(
        not(feature = "_web"),
        expect(dead_code, reason = "only web frameworks have clients")
    )]
    proxies: Proxies,
}

/// The source of the settings that a reload reads again.
struct Origin {
    source: file::Source,
    shadow: Option<bool>,
    /// The settings that a reload cannot change.
    fixed: file::Fixed,
    /// What a watched file had when it was read last.
    seen: OnceCell<Mutex<watch::Seen>>,
    /// The warnings about the file that was loaded last.
    warned: Mutex<HashSet<String>>,
}

impl Origin {
    /// Returns the warnings that the file did not cause before.
    fn news(&self, mut warnings: Vec<Event>) -> Vec<Event> {
        let now = warnings.iter().map(Event::to_string).collect();
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let before = mem::replace(&mut *warned, now);
        warnings.retain(|warning| !before.contains(&warning.to_string()));
        warnings
    }
}

impl Limits {
    /// Returns a builder that sets up limits; see [`LimitsBuilder`].
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().key_prefix("shop:").build().await?;
    /// assert!(limits.health().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> LimitsBuilder {
        LimitsBuilder::default()
    }

    /// Returns the current limits: those of the innermost [`scope`](Self::scope), else the
    /// installed ones, else a default, which is created on first use from the limits file and the
    /// environment.
    ///
    /// If that default cannot be set up, [`Event::NotInstalled`] is reported (by the feature `tracing`, since the default has
    /// no `on_event` callback), and calls are rejected as
    /// [`StoreMisconfigured`](crate::Reason::StoreMisconfigured). Functions that cannot return a rejection
    /// count locally.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Rejection};
    ///
    /// async fn search(user: u64) -> Result<(), Rejection> {
    ///     let name = format!("search:{user}");
    ///     Limits::current().limiter(&name, Quota::per_minute(1)).try_acquire(1).await?;
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().build().await?;
    /// limits.scope(async {
    ///     assert!(search(7).await.is_ok());
    ///     assert!(search(7).await.is_err());
    /// }).await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn current() -> Self {
        Self::with_scope(|limits, _| limits.clone())
    }

    /// Runs a future with these limits: annotated functions inside use them. Tasks that it spawns do not
    /// inherit them. The returned future borrows nothing from these limits, so it can be spawned.
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
        Scope::with(self).around(future)
    }

    /// Returns the limiter with this name, creating it if necessary. Its settings in the limits
    /// file, under `limiters`, then `prefixes`, take precedence over `settings`, one by one. A
    /// [`Quota`](crate::Quota) or [`Quotas`](crate::Quotas) alone is enough. Settings of the file that do not fit the
    /// quota, such as a `burst` for a sliding window, do not apply and are reported as [`Event::NoEffect`].
    ///
    /// Any text is a safe name, and the limits file matches it as it is given: `prefix: "50%"`. An entry that is
    /// written like the name applies as well, so that a test can ask for `search:{tenant}`. A name of only characters
    /// that keys may contain is used as it is, so `orders:42` is stored as the limiter of `"orders:{user_id}"` for 42,
    /// or of a Java service. The settings of a template do not apply to it: use [`limiter!`](crate::limiter) for a
    /// limiter of an annotated function.
    ///
    /// Unlike the limiter of a template with placeholders, it stays in the store when it is idle. If there is one for
    /// each user, set [`Settings::keep_alive`] or `keep_alive` in the limits file, or use [`limiter!`](crate::limiter).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let yaml = "limiters: { search: { rate: 5 } }";
    /// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
    /// let [search, reports] =
    ///     ["search", "reports"].map(|name| limits.limiter(name, Quota::per_minute(100)));
    /// assert_eq!(search.available_permits().await?, 5, "of the limits file");
    /// assert_eq!(reports.available_permits().await?, 100);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn limiter(&self, name: &str, settings: impl Into<Settings>) -> Limiter {
        let settings = settings.into();
        let core = self.registry().named(self.services(), name, Keys::One, Some(&settings));
        core.give(self.services(), &settings);
        Limiter::new(core, Arc::clone(self.services()))
    }

    /// Returns the limiter with this name and the quota of the limits file: its entry under
    /// `limiters`, the first matching one under `prefixes`, or `default`.
    ///
    /// If none of them exists, the limiter follows the store, so you can share a Java service's
    /// limiter without repeating its configuration. If the store has none either, calls are
    /// rejected as [`NotConfigured`](crate::Reason::NotConfigured).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Reason};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let yaml = "prefixes: [{ prefix: 'partner:', rate: 5, per: 1m }]";
    /// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
    /// assert_eq!(limits.configured("partner:acme").try_acquire(1).await?.remaining(), 4);
    ///
    /// let rejection = limits.configured("search").try_acquire(1).await.unwrap_err();
    /// assert_eq!(rejection.reason(), Reason::NotConfigured);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn configured(&self, name: &str) -> Limiter {
        let core = self.registry().named(self.services(), name, Keys::Many, None);
        Limiter::new(core, Arc::clone(self.services()))
    }

    /// Reads the limits file again. Limiters apply their new settings with their next call, which
    /// waiting calls make immediately, and announce them to the store once. The store itself,
    /// `key_prefix`, `deadline`, `max_remembered` and `tls_ca` keep their values until the program
    /// restarts.
    ///
    /// # Errors
    ///
    /// Returns every problem of the file; the previous limits then stay in force. A file that was loaded before must
    /// still exist, and must not be empty. Settings that are only read at startup, such as `store`, are not used;
    /// [`Event::NeedsRestart`] reports their changes. Warnings about the file, such as [`Event::Unmatched`], are
    /// reported only if the previous file did not cause them. Without a limits file, nothing is reported.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::fs;
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("reload-{}.yaml", std::process::id()));
    /// fs::write(&path, "limiters: { search: { rate: 5, per: 1m } }")?;
    /// let limits = Limits::builder().memory().limits_file(&path).build().await?;
    /// let search = limits.configured("search");
    /// assert_eq!(search.available_permits().await?, 5);
    ///
    /// fs::write(&path, "limiters: { search: { rate: 8, per: 1m } }")?;
    /// limits.reload()?;
    /// assert_eq!(search.available_permits().await?, 8);
    /// # fs::remove_file(path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reload(&self) -> Result<(), SetupError> {
        reload(self.services(), Some(&self.made.registry), &self.made.origin)
    }

    /// Ends these limits, for a graceful shutdown after the last request was served.
    ///
    /// - Calls that wait are rejected, as [`StoreUnavailable`](crate::Reason::StoreUnavailable), and so are all calls
    ///   from now on that need permits. A function that cannot return a rejection is counted by this process alone and
    ///   waits until its permits are free there: as during an outage, or, if this process counted the limiter before,
    ///   as before.
    /// - Refunds and settlements are sent to Redis, including those of dropped calls, and so are charges for permits that
    ///   this process granted while Redis was unavailable, if it is available again.
    /// - This process is removed from the list of processes that share the store, so that the shares of the others
    ///   grow at once.
    /// - The connections are closed and the thread `ratelimit` ends. Afterwards, other methods of a limiter on Redis
    ///   return an error of kind [`Unavailable`](crate::StoreErrorKind::Unavailable).
    ///
    /// Shutdown takes no longer than the `deadline` of a decision; anything unfinished by then is abandoned. If the
    /// future is dropped before, the thread `ratelimit` completes the shutdown.
    /// A second call does nothing. [`health`](Self::health) is an error from the first call on.
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
        let services = Arc::clone(self.services());
        self.services().shut_down(async move { heartbeat::leave(&services).await }).await;
    }

    /// Returns every limiter with its settings, the source of each setting, its call sites, and its
    /// counts so far.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let yaml = "limiters: { search: { rate: 5, per: 1s } }";
    /// let limits = Limits::builder().memory().limits_yaml(yaml).build().await?;
    /// limits.configured("search").try_acquire(1).await?;
    ///
    /// let report = limits.report().to_string();
    /// assert!(report.contains("rate: 5 (limits file)"));
    /// assert!(report.contains("allowed 1, rejected 0"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn report(&self) -> Report {
        report::report(self)
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.made.services
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.made.registry
    }
}

/// Reads the limits file again; an invalid one changes nothing.
fn reload(
    services: &Services,
    registry: Option<&Registry>,
    origin: &Origin,
) -> Result<(), SetupError> {
    let Origin { source, shadow, .. } = origin;
    let read = services.limits.renew(|current| {
        // Before the file is loaded, so that no change in between is missed.
        origin.look_again();
        let (file, (), warnings) = validate::load(source, *shadow, |_, _| Some(()))?;
        let file = file.map(|file| file.limits);
        let mut events = Vec::from_iter(file.is_some().then_some(Event::Reloaded));
        events.extend(origin.news(warnings));
        let changed = origin.fixed.changed(file.as_ref()).into_iter();
        events.extend(changed.map(|setting| Event::NeedsRestart { setting }));
        Ok((current.read_again(file, *shadow), events))
    });
    match read {
        Ok(events) => {
            registry.inspect(|registry| registry.relabel(services));
            events.iter().for_each(|event| services.events.emit(event));
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
        f.debug_struct("Limits").field("store", &self.services().store).finish_non_exhaustive()
    }
}
