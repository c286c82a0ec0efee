//! Sets up limits: finds the file, selects the store, validates everything.

#[cfg(any(feature = "actix", feature = "axum", feature = "tonic", feature = "tower"))]
mod clients;
#[cfg(feature = "redis-connect")]
mod connect;
mod program;
mod source;
mod store;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use once_cell::sync::OnceCell;

use self::program::{Chosen, Named, Program};
use super::{INSTALLED, Limits, Made, Origin, file, heartbeat, idle, validate, watch};
use crate::{
    Clock, Problem, ProblemKind, SetupError,
    engine::Engine,
    events::{Callback, Event, Events, Spans},
    home::Homes,
    limiter::{Crowd, Local, Reading, Rules, Services},
    members::Members,
    metrics,
    registry::{Registry, Sites},
    settings::Current,
    store::{AnyStore, MemoryStore, RedisStore},
};

/// Configures [`Limits`], then builds or installs them.
///
/// Everything is optional. A setting that is not set here comes from the environment, then from the
/// limits file, then from the defaults.
///
/// | source | store | limits file |
/// |---|---|---|
/// | builder | [`redis`](Self::redis), `redis_connect`, [`memory`](Self::memory) | [`limits_file`](Self::limits_file) |
/// | environment | `RATELIMIT_STORE` | `RATELIMIT_LIMITS` |
/// | limits file | `store` | |
/// | otherwise | `REDIS_URL`, else embedded | `ratelimit.yaml` in the working directory, if it exists |
///
/// A relative `RATELIMIT_LIMITS` starts at the working directory: here that of the program, for the
/// attribute that of the compiler, which is the root of the workspace with cargo. Messages name the
/// absolute path.
///
/// # Examples
///
/// ```no_run
/// use ratelimit_runtime::Limits;
///
/// # async fn setup() -> Result<(), ratelimit_runtime::SetupError> {
/// let limits = Limits::builder()
///     .redis("redis://127.0.0.1:6379/0")
///     .limits_file("ratelimit.yaml")
///     .install()
///     .await?;
/// println!("{}", limits.report());
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use = "limits are not set up until `install` or `build`"]
pub struct LimitsBuilder {
    store: Option<Named>,
    source: file::Source,
    key_prefix: Option<String>,
    deadline: Option<Duration>,
    instances: Option<u32>,
    max_remembered: Option<usize>,
    revision: Option<u64>,
    shadow: Option<bool>,
    tls_ca: Option<PathBuf>,
    trusted_proxies: Option<Vec<String>>,
    client_ip_header: Option<String>,
    clock: Option<Clock>,
    span_one_in: u32,
    watch: Option<Duration>,
    #[cfg(all(unix, feature = "signal"))]
    on_hangup: bool,
    on_event: Option<Callback>,
}

impl LimitsBuilder {
    /// Sets [shadow mode](crate::guide::shadow) for all limiters. Overrides the top-level `shadow`
    /// of the limits file, but not the `shadow` of a single limiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Reason};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().shadow(true).build().await?;
    /// let search = limits.limiter("search", Quota::per_minute(1));
    /// search.try_acquire(1).await?;
    ///
    /// let permit = search.try_acquire(1).await?;
    /// assert_eq!(permit.shadowed(), Some(Reason::Limited));
    /// # Ok(())
    /// # }
    /// ```
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = Some(shadow);
        self
    }

    /// Sets the revision of this process's configuration. If two processes disagree, the greater
    /// revision wins; between equal revisions, the process that started later. At most 2^53 − 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::Limits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // The number of the build, by the pipeline that compiles the program.
    /// let revision = option_env!("SHOP_BUILD").unwrap_or("1").parse()?;
    /// let limits = Limits::builder().memory().revision(revision).build().await?;
    /// assert!(limits.report().settings.iter().any(|setting| setting.name == "revision"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn revision(mut self, revision: u64) -> Self {
        self.revision = Some(revision);
        self
    }

    /// Reads time from this clock. Redis keeps its own, so this is for the embedded store.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Limits, Quota, test_util::ManualClock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let time = ManualClock::new();
    /// let limits = Limits::builder().memory().clock(time.clone()).build().await?;
    /// let reports = limits.limiter("reports", Quota::per_hour(6));
    /// reports.try_acquire(6).await?;
    ///
    /// time.advance(Duration::from_secs(3600));
    /// assert_eq!(reports.available_permits().await?, 6);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "test-util")]
    pub fn clock(mut self, clock: crate::clock::ManualClock) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// Calls this with every [`Event`], on the thread on which the event occurs. It must not block. If it panics, as
    /// `println!` does once the output is closed, the event is lost, and nothing else.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Event, Limits};
    ///
    /// let builder = Limits::builder().on_event(|event| match event {
    ///     Event::StoreDown { .. } | Event::ReloadFailed { .. } => eprintln!("error: {event}"),
    ///     _ => eprintln!("{event}"),
    /// });
    /// ```
    pub fn on_event(mut self, callback: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Arc::new(callback));
        self
    }

    /// Opens a span for one of every `one_in` decisions, beginning with the first; for none if it is 0 (the
    /// default). Its duration is that of the store call and the wait; a decision that takes neither has no span.
    ///
    /// Spans have the target `ratelimit`, the name `ratelimit.decision` and the level `INFO`, with the fields `limiter` (the
    /// template, or several), `permits`, `outcome` (`admitted` or why it was rejected, in the words of the
    /// [metrics](crate::guide::metrics)) and, of an admitted call, `remaining` and `degraded`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ratelimit_runtime::Limits;
    ///
    /// # async fn setup() -> Result<(), ratelimit_runtime::SetupError> {
    /// // One of a hundred decisions is enough to find slow ones.
    /// let limits = Limits::builder().trace_decisions(100).install().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tracing")]
    pub fn trace_decisions(mut self, one_in: u32) -> Self {
        self.span_one_in = one_in;
        self
    }

    /// Validates everything and installs these limits for the whole program.
    ///
    /// An unavailable Redis is not an error: it is reported as an event, and `on_store_error`
    /// decides until Redis is available again. A server that does not reply delays the setup by 2 s, or by the `deadline` if
    /// that is longer.
    ///
    /// Call `fork` before this, not after. A child can use its parent's limits with a tokio runtime of its own, but the
    /// tasks of the setup run only in the parent: the child does not reload the limits file, does not notice the end of an
    /// outage that began before the fork, and does not count as a process that shares the store.
    ///
    /// # Errors
    ///
    /// Returns every problem of the builder and of the limits file, or a store error that lasts. Returns an error, too,
    /// if limits are already installed, or if a rate-limited function or `limiter!` used the default limits before.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ratelimit_runtime::Limits;
    ///
    /// # async fn serve() {}
    /// # async fn run() -> Result<(), ratelimit_runtime::SetupError> {
    /// let limits = Limits::builder().on_event(|event| eprintln!("{event}")).install().await?;
    /// serve().await;
    /// limits.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn install(self) -> Result<Limits, SetupError> {
        let limits = self.build().await?;
        INSTALLED.set(limits.clone()).map_err(|_| {
            Problem::new(
                ProblemKind::AlreadyInstalled,
                "limits are already installed, or were used before; call `install` once, at startup, before any \
                 limiter is used",
            )
            .alone()
        })?;
        Ok(limits)
    }

    /// Validates everything and returns limits without installing them: for tests, which run
    /// annotated functions in their [`scope`](Limits::scope).
    ///
    /// # Errors
    ///
    /// As for [`install`](Self::install), except that limits may already be installed.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let quota = Quota::per_minute(1);
    /// for _test in 0..2 {
    ///     let limits = Limits::builder().memory().no_limits_file().build().await?;
    ///     assert!(limits.limiter("search", quota).try_acquire(1).await.is_ok());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn build(self) -> Result<Limits, SetupError> {
        let engine = Arc::<Engine>::default();
        // Before the file is loaded, so that no change in between is missed.
        let watch = self.watch.map(|every| (every, watch::Seen::of(&self.source)));
        #[cfg(all(unix, feature = "signal"))]
        let hangups = self.on_hangup.then(|| watch::hangups(&engine)).transpose()?;
        let (limits, warnings) = self.load(engine)?;
        let services = limits.services();
        for warning in &warnings {
            services.events.emit(warning);
        }
        if let Some(store) = services.store.shared() {
            store.check(&services.key_prefix).await.map_err(SetupError::of_store)?;
        }
        if let Some((every, seen)) = watch {
            watch::start(&limits, every, seen);
        }
        #[cfg(all(unix, feature = "signal"))]
        if let Some(hangups) = hangups {
            watch::on_hangup(&limits, hangups);
        }
        Ok(limits)
    }

    /// Returns limits on the embedded store that use this clock and read nothing else.
    #[cfg(feature = "test-util")]
    pub(crate) fn by_hand(clock: crate::clock::ManualClock) -> Limits {
        Self::default().clock(clock).embedded(None)
    }

    /// Returns the limits of a program that installed none, and the events to report. Their problems are reported with
    /// each call.
    pub(super) fn unattended() -> (Limits, Vec<Event>) {
        Self::default().load(Arc::default()).unwrap_or_else(|error| {
            let limits = Self::default().embedded(Some(error.clone()));
            (limits, vec![Event::NotInstalled { error }])
        })
    }

    /// Returns limits on the embedded store, without a file; if `broken`, each call reports why.
    fn embedded(self, broken: Option<SetupError>) -> Limits {
        let this = self.memory().no_limits_file();
        let program = this.program(None, &mut Vec::new());
        let program = program.expect("an embedded store without a file has nothing to fail on");
        this.assemble(program, None, broken, Arc::default())
    }

    /// Reads and validates everything. Returns the limits and their warnings.
    fn load(self, engine: Arc<Engine>) -> Result<(Limits, Vec<Event>), SetupError> {
        let (file, program, warnings) =
            validate::load(&self.source, self.shadow, |file, problems| {
                self.program(file, problems)
            })?;
        let is_unset = matches!(program.store, Chosen::Unset);
        let limits = self.assemble(program, file, None, engine);
        let mut warnings = limits.made.origin.news(warnings);
        if is_unset {
            warnings.insert(0, Event::EmbeddedStore);
        }
        Ok((limits, warnings))
    }

    fn assemble(
        self,
        program: Program,
        file: Option<file::LoadedFile>,
        broken: Option<SetupError>,
        engine: Arc<Engine>,
    ) -> Limits {
        metrics::describe();
        let fixed = file::Fixed::of(file.as_ref().map(|file| &file.limits), &self.chosen());
        let Program { key_prefix, deadline, remembered, shown, proxies, store } = program;
        let events = Events::to(self.on_event, Arc::clone(&engine));
        // Redis has its own time, which continues while tokio's is paused.
        let pauses = !matches!(store, Chosen::Redis(..));
        let clock = self.clock.unwrap_or_else(|| Clock::with_engine(Arc::clone(&engine), pauses));
        let store = match store {
            Chosen::Unset | Chosen::Memory => AnyStore::Memory(MemoryStore::new(clock.clone())),
            Chosen::Redis(address, certificates) => {
                let (events, engine) = (events.clone(), Arc::clone(&engine));
                AnyStore::Redis(RedisStore::new(address, certificates, deadline, events, engine))
            }
        };
        let (members, file) = (Members::new(), file.map(|file| file.limits));
        let current = Current::new(0, file, self.shadow);
        let is_shared = store.is_shared();
        let current = if is_shared { current.in_process(members.process()) } else { current };
        let services = Arc::<Services>::new_cyclic(|this| Services {
            this: this.clone(),
            key_prefix,
            store,
            deadline,
            per_client: MemoryStore::new(clock.clone()),
            local: Local::new(clock.clone()),
            clock,
            lanes: Homes::new(Arc::clone(&engine)),
            engine,
            crowd: Crowd::default(),
            events,
            spans: Spans::one_in(self.span_one_in),
            broken,
            revision: self.revision,
            instances: self.instances,
            members,
            limits: Reading::new(current),
            rules: Rules::default(),
        });
        let registry = Arc::new(Registry::new(remembered));
        let (source, shadow) = (self.source, self.shadow);
        let (seen, warned) = (OnceCell::new(), Mutex::default());
        let origin = Arc::new(Origin { source, shadow, fixed, seen, warned });
        let made = Made { services, registry, origin, settings: shown, proxies };
        let limits = Limits { sites: Sites::new(), made: Arc::new(made) };
        if is_shared {
            heartbeat::start(&limits);
        }
        idle::forget_when_many(&limits);
        limits
    }
}

impl fmt::Debug for LimitsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The store's address may contain a password.
        f.debug_struct("LimitsBuilder").field("source", &self.source).finish_non_exhaustive()
    }
}
