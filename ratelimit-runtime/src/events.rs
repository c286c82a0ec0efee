//! Events for operators.

mod bounded;
#[cfg(feature = "tracing")]
mod log;
mod spans;
mod text;

use std::{
    fmt,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    time::Duration,
};

use self::bounded::Bounded;
pub(crate) use self::bounded::Occurrences;
pub(crate) use self::spans::Spans;
use crate::{
    Mode, Quota, Reason, Rejection, SetupError, StoreError, engine::Engine, metrics,
    store::Reconciled,
};

/// An event for operators.
///
/// With the feature `tracing`, each event is logged with the target `ratelimit`; its fields are listed in
/// [the guide to metrics](crate::guide::metrics#events). A callback passed to
/// [`LimitsBuilder::on_event`](crate::LimitsBuilder::on_event) receives all of them.
///
/// Frequent events are reported the first time they happen to a limiter (all keys of a template count as one),
/// and then as a [count](Self::Repeated) every ten seconds, and at shutdown. The first use of a key is not an event.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use ratelimit_runtime::{Event, Limits, Quota};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sender, alerts) = mpsc::channel();
/// let builder = Limits::builder().memory().on_event(move |event| {
///     let alert = match event {
///         Event::StoreDown { .. } | Event::Misconfigured { .. } => event.to_string(),
///         Event::Rejected { rejection, .. } => format!("{} rejects calls", rejection.limiter()),
///         _ => return,
///     };
///     let _ = sender.send(alert);
/// });
/// let search = builder.build().await?.limiter("search", Quota::per_minute(1));
/// search.try_acquire(1).await?;
/// assert!(search.try_acquire(1).await.is_err());
/// assert_eq!(alerts.try_recv()?, "search rejects calls");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// No Redis is configured, so limits apply to this process only.
    EmbeddedStore,
    /// A rate-limited function ran before the limits were installed, and the default setup failed.
    #[non_exhaustive]
    NotInstalled {
        /// Why the setup failed.
        error: SetupError,
    },
    /// The program was compiled with a limits file, and found none when it started. It runs with the settings of its
    /// attributes.
    #[non_exhaustive]
    LimitsFileMissing {
        /// The file at compile time.
        file: &'static str,
    },
    /// The limits file has an entry that matches no compiled limiter. A reload reports only new ones.
    #[non_exhaustive]
    Unmatched {
        /// The entry's key.
        key: String,
        /// A limiter with placeholders that has this name, among others. Settings for one of its names belong to its
        /// `overrides`.
        template: Option<String>,
        /// A limiter without an entry whose key has similar words, and other placeholders. It was probably meant.
        similar: Option<String>,
    },
    /// Settings of the limits file do not apply as written, because they do not fit the quota that code gives the
    /// limiter: they have no effect, or a calendar window counts as a rolling one of its usual length. For a layer that
    /// exists when the limits are built, it is an error instead.
    #[non_exhaustive]
    NoEffect {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// What does not fit, and what to write instead.
        conflict: String,
    },
    /// The limits file disables a limiter.
    #[non_exhaustive]
    Disabled {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
    },
    /// A limiter is in [shadow mode](crate::guide::shadow): it is not enforced.
    #[non_exhaustive]
    ShadowMode {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
    },
    /// A limiter in shadow mode admitted a call that it would have rejected or delayed. Reported for the first such
    /// call, and then only for the first one after a minute without any: the
    /// [report](crate::report::LimiterReport::shadowed) counts all of them.
    #[non_exhaustive]
    WouldReject {
        /// The rejection that the caller would have received if it did not wait.
        rejection: Rejection,
    },
    /// A limiter rejected a call.
    #[non_exhaustive]
    Rejected {
        /// The rejection that the caller received.
        rejection: Rejection,
    },
    /// A penalty blocked a key of a limiter.
    #[non_exhaustive]
    Blocked {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// How long the key is blocked.
        block: Duration,
    },
    /// An event happened again in the last ten seconds, to the same limiter or to one of many.
    #[non_exhaustive]
    Repeated {
        /// One of these events; of rejections, one with the same reason.
        event: Box<Event>,
        /// How many more there were since the last report.
        more: u64,
    },
    /// The configured and the stored configuration of a limiter differed, and were reconciled.
    #[non_exhaustive]
    Reconciled {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// How they were reconciled.
        outcome: Reconciled,
        /// The quota that no longer applies here: the stored one if it was replaced, or this process's
        /// own if it follows the store. `None` if there is none.
        old: Option<Quota>,
        /// The quota in force.
        new: Quota,
        /// The mode that no longer applies here, and the one in force; `None` if they are the same.
        modes: Option<(Mode, Mode)>,
    },
    /// The store is unavailable; `on_store_error` decides from now on. Reported when an outage begins, and
    /// every minute while it lasts. If the store fails again within ten seconds of the last report, the next report is
    /// made when they are over. Each node of a cluster has its own outages.
    #[non_exhaustive]
    StoreDown {
        /// The last error.
        error: StoreError,
        /// The address of the unavailable cluster node; `None` for a single server, or if the cluster as a whole
        /// rejects commands.
        node: Option<Arc<str>>,
        /// The slots that the node served, such as `0-5460`.
        slots: Option<Arc<str>>,
    },
    /// The store is available again.
    #[non_exhaustive]
    StoreUp {
        /// The cluster node that was unavailable. Another node may serve its slots now.
        node: Option<Arc<str>>,
        /// Its slots.
        slots: Option<Arc<str>>,
    },
    /// The store returns an error that waiting does not resolve, a function that cannot return a rejection has no quota,
    /// or a web layer or extractor does not know the address of the peer. Calls are rejected. Calls of a function that
    /// cannot return a rejection are counted locally, or admitted uncounted if there is no quota.
    #[non_exhaustive]
    Misconfigured {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// The error.
        error: StoreError,
    },
    /// A template has reached its bound of `max_keys` keys with their own limiter; new keys share one limiter.
    #[non_exhaustive]
    KeysShared {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// The bound.
        max_keys: u32,
    },
    /// Grants are dated in the future, because a peer's clock is wrong or the server's clock stepped back.
    /// They count from now on.
    #[non_exhaustive]
    ClockAhead {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// How far in the future.
        ahead: Duration,
    },
    /// Redis may evict keys, and rate limits with them, when it runs out of memory.
    #[non_exhaustive]
    EvictionPossible {
        /// Its `maxmemory-policy`, which should be `noeviction`.
        policy: String,
    },
    /// A request from a private network names a client in its headers, but its peer is not one of the `trusted_proxies`. If the
    /// peer is a proxy, all clients behind it count as one `web::ClientIp`. Reported once.
    #[non_exhaustive]
    UntrustedProxy {
        /// The private network of the peer's address, such as `10.0.0.0/8`.
        network: &'static str,
    },
    /// The store's user lacks the permissions for the list of processes that share the store, so this process
    /// does not know which of them are alive. Limits still apply. Reported once.
    #[non_exhaustive]
    MembersUnavailable {
        /// The error of the store.
        error: StoreError,
    },
    /// Two web layers have the same template, but different settings in code. Each key gets the settings of the layer that
    /// sees it first. Reported with the first request of the second layer.
    #[non_exhaustive]
    LayersDiffer {
        /// The template.
        limiter: Arc<str>,
    },
    /// The limits file was reloaded.
    Reloaded,
    /// The limits file was reloaded, but a setting that is only read at startup has changed. A setting that the builder
    /// or the environment overrides is not reported.
    #[non_exhaustive]
    NeedsRestart {
        /// The setting that changed.
        setting: &'static str,
    },
    /// The limits file could not be reloaded; the previous limits stay in force.
    #[non_exhaustive]
    ReloadFailed {
        /// Every problem of the file.
        error: SetupError,
    },
}

impl Event {
    /// Returns the kind of the event, as in the label of a metric.
    fn word(&self) -> &'static str {
        match self {
            Self::EmbeddedStore => "embedded_store",
            Self::NotInstalled { .. } => "not_installed",
            Self::LimitsFileMissing { .. } => "limits_file_missing",
            Self::Unmatched { .. } => "unmatched",
            Self::NoEffect { .. } => "no_effect",
            Self::Disabled { .. } => "disabled",
            Self::ShadowMode { .. } => "shadow_mode",
            Self::WouldReject { .. } => "would_reject",
            Self::Rejected { .. } => "rejected",
            Self::Blocked { .. } => "blocked",
            Self::Repeated { event, .. } => event.word(),
            Self::Reconciled { .. } => "reconciled",
            Self::StoreDown { .. } => "store_down",
            Self::StoreUp { .. } => "store_up",
            Self::MembersUnavailable { .. } => "members_unavailable",
            Self::Misconfigured { .. } => "misconfigured",
            Self::KeysShared { .. } => "keys_shared",
            Self::ClockAhead { .. } => "clock_ahead",
            Self::EvictionPossible { .. } => "eviction_possible",
            Self::UntrustedProxy { .. } => "untrusted_proxy",
            Self::LayersDiffer { .. } => "layers_differ",
            Self::Reloaded => "reloaded",
            Self::NeedsRestart { .. } => "needs_restart",
            Self::ReloadFailed { .. } => "reload_failed",
        }
    }

    /// Returns the template of the limiter that the event concerns.
    fn limiter(&self) -> Option<&Arc<str>> {
        match self {
            Self::NoEffect { limiter, .. }
            | Self::Disabled { limiter }
            | Self::ShadowMode { limiter }
            | Self::LayersDiffer { limiter }
            | Self::Reconciled { limiter, .. }
            | Self::Blocked { limiter, .. }
            | Self::Misconfigured { limiter, .. }
            | Self::KeysShared { limiter, .. }
            | Self::ClockAhead { limiter, .. } => Some(limiter),
            Self::WouldReject { rejection } | Self::Rejected { rejection } => {
                Some(rejection.template())
            }
            Self::Repeated { event, .. } => event.limiter(),
            _ => None,
        }
    }

    /// Returns the topic; events of one topic are counted together. Rejections for two reasons have two.
    fn topic(&self) -> Topic {
        match self {
            Self::Reconciled { outcome, .. } => (outcome.word(), None),
            Self::Rejected { rejection } => (self.word(), Some(rejection.reason())),
            other => (other.word(), None),
        }
    }

    /// Returns whether it can happen often.
    fn is_bounded(&self) -> bool {
        matches!(
            self,
            Self::NoEffect { .. }
                | Self::Blocked { .. }
                | Self::Reconciled { .. }
                | Self::Misconfigured { .. }
                | Self::ClockAhead { .. }
                | Self::LayersDiffer { .. }
        )
    }
}

/// The kind of an event, or the outcome of a reconciliation, and the reason of a rejection.
type Topic = (&'static str, Option<Reason>);

pub(crate) type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// The receivers of events.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Shared>);

#[derive(Default)]
struct Shared {
    callback: Option<Callback>,
    engine: Arc<Engine>,
    bounded: Bounded,
}

impl Events {
    pub(crate) fn to(callback: Option<Callback>, engine: Arc<Engine>) -> Self {
        Self(Arc::new(Shared { callback, engine, bounded: Bounded::default() }))
    }

    pub(crate) fn emit(&self, event: &Event) {
        metrics::count_event(event.word());
        if event.is_bounded() {
            self.0.bounded(event.clone());
        } else {
            self.0.publish(event);
        }
    }

    /// Counts a rejection, and reports it unless the limiter has just rejected other calls for this reason.
    pub(crate) fn rejected(&self, count: &Arc<Occurrences>, rejection: &Rejection) {
        self.0.counted(count, || Event::Rejected { rejection: rejection.clone() });
    }

    /// The same for a call whose key is beyond `max_keys`.
    pub(crate) fn shared(&self, count: &Arc<Occurrences>, limiter: &Arc<str>, max_keys: u32) {
        self.0.counted(count, || Event::KeysShared { limiter: Arc::clone(limiter), max_keys });
    }

    /// Reports what was counted since the last report: at shutdown, when the background task has ended.
    pub(crate) fn report_the_rest(&self) {
        self.0.report_repeated();
    }
}

impl Shared {
    /// Passes an event to its receivers. One that panics ends neither the call nor the task in which the event occurs;
    /// the program's panic hook reports it.
    fn publish(&self, event: &Event) {
        let _ = panic::catch_unwind(AssertUnwindSafe(|| self.pass(event)));
    }

    fn pass(&self, event: &Event) {
        #[cfg(feature = "tracing")]
        log::write(event);
        if let Some(callback) = &self.callback {
            callback(event);
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("callback", &self.0.callback.is_some()).finish()
    }
}
