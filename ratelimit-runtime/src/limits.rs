//! The set of limits a program goes by.

mod builder;
mod cores;
mod current;
mod family;
mod file;
mod report;
mod scope;
mod validate;

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use arc_swap::ArcSwap;
use once_cell::sync::OnceCell;
#[cfg(feature = "tower")]
use ratelimit_spec::Template;
use ratelimit_spec::{Network, safe_name};
use tokio::sync::{Notify, oneshot};

pub use self::{
    builder::LimitsBuilder,
    report::{LimiterReport, Report},
    scope::observe,
};
use self::{
    cores::Cores,
    scope::{SCOPE, Scope},
};
pub(crate) use self::{current::Current, family::Family, scope::Observer};
use crate::{
    Clock, Limiter, Settings, SetupError, StoreError,
    annotation::{self, Annotation},
    engine::Engine,
    events::{Event, Events},
    home::Homes,
    limiter::{Core, Lanes},
    metrics,
    settings::Keys,
    store::{
        Charged, Config, Decided, Expiry, Grant, Group, KeepState, MemoryStore, RedisStore, Reply,
        Request, Reservation, StateKeys, Store, WriteWhen,
    },
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
pub struct Limits(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) id: u64,
    pub(crate) key_prefix: String,
    pub(crate) store: AnyStore,
    /// How long a decision may take.
    pub(crate) deadline: Duration,
    /// Counts `per_client` limiters.
    pub(crate) per_client: MemoryStore,
    /// Counts while the store is away.
    pub(crate) local: MemoryStore,
    pub(crate) clock: Clock,
    /// Does what no caller awaits.
    pub(crate) engine: Arc<Engine>,
    /// The calls to the store that are in flight, by runtime.
    pub(crate) lanes: Homes<Lanes>,
    pub(crate) events: Events,
    /// Why the limits could not be read, when nobody installed any.
    pub(crate) broken: Option<Arc<str>>,
    source: file::Source,
    revision: Option<u64>,
    instances: Option<u32>,
    shadow: Option<bool>,
    /// Those of the limits file are in force if there are none here.
    #[cfg_attr(
        not(feature = "_web"),
        expect(dead_code, reason = "only web frameworks have clients")
    )]
    trusted_proxies: Option<Vec<Network>>,
    generation: AtomicU64,
    /// Wakes those who wait when the limits are read anew.
    renewed: Notify,
    current: ArcSwap<Current>,
    families: Mutex<HashMap<Arc<str>, Arc<Family>>>,
    /// Limiters that were asked for by name.
    named: Cores,
}

/// The stores there are, without a pointer and a box between a call and its decision.
#[derive(Debug)]
pub(crate) enum AnyStore {
    Memory(MemoryStore),
    Redis(RedisStore),
}

macro_rules! forward {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $output:ty;)*) => {
        impl AnyStore {$(
            pub(crate) async fn $name(&self, $($argument: $ty),*) -> Result<$output, StoreError> {
                match self {
                    Self::Memory(store) => store.$name($($argument),*).await,
                    // A round trip's future is large, and would be part of every caller's.
                    Self::Redis(store) => {
                        Box::pin(metrics::timed(stringify!($name), store.$name($($argument),*))).await
                    }
                }
            }
        )*}
    };
}

forward! {
    decide(groups: &[Group<'_>]) -> Decided;
    reserve(request: &Request<'_>, costs: &[u32], within_ms: u64) -> Vec<Reservation>;
    give_back(keys: &StateKeys, grant: &Grant) -> u64;
    charge(request: &Request<'_>, permits: u32, max_debt: u64) -> (Reply, Charged);
    peek(request: &Request<'_>, cost: u32) -> Reply;
    assert(request: &Request<'_>) -> Reply;
    release(keys: &StateKeys, permits: u32) -> u64;
    write(keys: &StateKeys, config: Config, when: WriteWhen, state: KeepState) -> bool;
    read(keys: &StateKeys) -> Option<Config>;
    delete(keys: &StateKeys) -> bool;
    expire(keys: &StateKeys, expiry: Expiry) -> bool;
    ttl(keys: &StateKeys) -> Option<Duration>;
}

impl AnyStore {
    /// Whether other processes count in it too.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Redis(_))
    }

    /// Whether one call can decide about both limiters.
    pub(crate) fn one_call(&self, one: &StateKeys, other: &StateKeys) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(store) => !store.is_cluster() || one.tag() == other.tag(),
        }
    }

    /// When to look again while waiting: others may free permits before their time.
    pub(crate) fn look_again_after(&self, wait: Duration) -> Duration {
        match self {
            Self::Memory(_) => wait,
            Self::Redis(_) => (wait / 10).max(Duration::from_secs(1)),
        }
    }
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
    /// not inherit them.
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
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        SCOPE.scope(Scope::with(self), future).await
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
        let core = self.0.named(name, Keys::One, Some(&settings));
        core.give(&self.0, &settings);
        Limiter::new(core, self.clone())
    }

    /// The limiter of this name with the quota of the limits file: its entry under `limiters`, the
    /// first matching one under `prefixes`, or `default`.
    ///
    /// When there is none of them, whatever the store holds is right: so a limiter that belongs to a
    /// Java service is used without repeating its numbers. When the store holds nothing either, the
    /// limiter refuses, as [`NotConfigured`](crate::Reason::NotConfigured).
    #[must_use]
    pub fn configured(&self, name: &str) -> Limiter {
        Limiter::new(self.0.named(name, Keys::Many, None), self.clone())
    }

    /// Whether this is the address of a proxy whose word about its clients counts.
    #[cfg(feature = "_web")]
    pub(crate) fn trusts(&self, address: std::net::IpAddr) -> bool {
        let contains = |proxies: &[Network]| proxies.iter().any(|proxy| proxy.contains(address));
        match &self.0.trusted_proxies {
            Some(proxies) => contains(proxies),
            None => contains(self.0.current.load().trusted_proxies()),
        }
    }

    /// Reads the limits file again. Limiters take their new numbers with their next call, which
    /// calls that wait make at once, and state them to the store once. The store itself, `key_prefix`, `deadline` and `tls_ca` stay what
    /// they were when the program started.
    ///
    /// # Errors
    ///
    /// Every problem of the file; the old limits stay in force then.
    pub fn reload(&self) -> Result<(), SetupError> {
        let inner = &self.0;
        let loaded = validate::load(&inner.source, inner.shadow);
        match loaded {
            Ok((file, warnings)) => {
                let number = inner.generation() + 1;
                inner.current.store(Arc::new(Current::new(number, file, inner.shadow)));
                inner.generation.store(number, Ordering::Release);
                inner.renewed.notify_waiters();
                inner.events.emit(&Event::Reloaded);
                warnings.iter().for_each(|warning| inner.events.emit(warning));
                Ok(())
            }
            Err(error) => {
                inner.events.emit(&Event::ReloadFailed { error: error.clone() });
                Err(error)
            }
        }
    }

    /// Every limiter with its numbers, where each number came from, its call sites, and what it did
    /// so far.
    #[must_use]
    pub fn report(&self) -> Report {
        report::report(&self.0)
    }

    /// Runs what no caller waits for. What is done in this process is done at once, so that the next
    /// call finds it done: all work on the embedded store, and work that is `here`.
    pub(crate) fn start(&self, here: bool, work: impl Future<Output = ()> + Send + 'static) {
        let mut work = Box::pin(work);
        let mut context = Context::from_waker(Waker::noop());
        let here = here || !self.0.store.is_shared();
        if !here || work.as_mut().poll(&mut context).is_pending() {
            self.0.engine.spawn(work);
        }
    }

    /// Runs a future to its end even if the caller is dropped meanwhile.
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut work = Box::pin(work);
        if !self.0.store.is_shared() {
            return work.await;
        }
        let (done, result) = oneshot::channel();
        self.0.engine.spawn(async move {
            // A caller that was dropped does not need the result.
            let _ = done.send(work.as_mut().await);
        });
        result.await.unwrap_or_else(|_| Err(StoreError::unavailable("the program is ending")))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }
}

impl Inner {
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Waits until the limits are read anew, or have been since this generation.
    pub(crate) async fn renewed(&self, since: u64) {
        let mut renewed = pin!(self.renewed.notified());
        renewed.as_mut().enable();
        if self.generation() == since {
            renewed.await;
        }
    }

    pub(crate) fn current(&self) -> Arc<Current> {
        self.current.load_full()
    }

    /// The revision of the configuration: the builder's, else the limits file's, else 0.
    pub(crate) fn revision(&self) -> u64 {
        self.revision.unwrap_or_else(|| self.current.load().revision())
    }

    /// How many processes share a quota while the store is away.
    pub(crate) fn instances(&self) -> u32 {
        self.instances.or_else(|| self.current.load().instances()).unwrap_or(1).max(1)
    }

    /// The family of an annotated key, shared by all its call sites.
    pub(crate) fn family_of(&self, site: &Annotation) -> Arc<Family> {
        let sites = || annotation::all().into_iter().filter(|other| other.key == site.key);
        self.family(site.key, || {
            let mut annotations: Vec<_> = sites().map(Annotation::settings).collect();
            let mut declared: Vec<_> = sites().map(Annotation::declared_settings).collect();
            // A platform without a list of call sites still knows the one that asks.
            annotations.push(site.settings());
            declared.push(site.declared_settings());
            let keys = if site.fixed().is_some() { Keys::One } else { Keys::Many };
            Family::annotated(site.key, keys, &annotations, &declared)
        })
    }

    /// The family of a key template that a layer limits, which is that of the annotations with the same
    /// template.
    #[cfg(feature = "tower")]
    pub(crate) fn family_of_template(&self, template: &Template) -> Arc<Family> {
        let key = template.text();
        if let Some(site) = annotation::all().into_iter().find(|site| site.key == key) {
            return self.family_of(site);
        }
        let keys = if template.is_static() { Keys::One } else { Keys::Many };
        self.family(key, || Family::unannotated(key, keys))
    }

    /// The limiter of a name built at run time.
    fn named(&self, name: &str, keys: Keys, given: Option<&Settings>) -> Arc<Core> {
        // An annotated key without placeholders is the same limiter under the same name.
        if let Some(site) = annotation::of_fixed(name) {
            return self.family_of(site).only(self, name);
        }
        let name = safe_name(name);
        self.named.get_or_make(&name, || {
            let family = match self.current().label(&name) {
                Some(label) => self.family(&label, || Family::unannotated(&label, keys)),
                // Names are many, so nothing but their limiter remembers them.
                None => Arc::new(Family::unnamed(&name, keys)),
            };
            Core::new(self, family, &name, given.cloned())
        })
    }

    fn family(&self, key: &str, make: impl FnOnce() -> Family) -> Arc<Family> {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(family) = families.get(key) {
            return Arc::clone(family);
        }
        let family = Arc::new(make());
        families.insert(Arc::clone(&family.key), Arc::clone(&family));
        family
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").field("store", &self.0.store).finish_non_exhaustive()
    }
}
