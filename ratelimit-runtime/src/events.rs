//! What operators should hear of, reported once and in one place.

mod bounded;
mod spans;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use self::bounded::Bounded;
pub(crate) use self::spans::Spans;
use crate::{Quota, Rejection, SetupError, StoreError, engine::Engine, metrics, store::Reconciled};

/// Something an operator should hear of.
///
/// With the feature `tracing` each one is an event of target `ratelimit`; a callback given to
/// [`LimitsBuilder::on_event`](crate::LimitsBuilder::on_event) gets them all.
///
/// What happens often is reported when it first happens to a limiter, all keys of a template being one, and
/// then as a [count](Self::Repeated) every ten seconds. A key that is used for the first time is no event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// No Redis is named anywhere, so limits hold within this process only.
    EmbeddedStore,
    /// The limits could not be read, and a rate-limited function ran before they were installed.
    NotInstalled {
        /// What is wrong.
        error: SetupError,
    },
    /// The limits file has an entry that matches no compiled limiter.
    Unmatched {
        /// The entry's key.
        key: String,
    },
    /// A limiter is turned off by the limits file.
    Disabled {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
    },
    /// A limiter is in [shadow mode](crate::guide::shadow): it refuses nobody.
    ShadowMode {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
    },
    /// A limiter in shadow mode admitted a call that it would have rejected or delayed. Reported for the
    /// first such call, and again after a minute without any; the
    /// [report](crate::report::LimiterReport::shadowed) counts all of them.
    WouldReject {
        /// The rejection that the caller would have received.
        rejection: Rejection,
    },
    /// A limiter rejected a call.
    Rejected {
        /// The rejection that the caller received.
        rejection: Rejection,
    },
    /// A penalty blocked a key of a limiter.
    #[non_exhaustive]
    Blocked {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// For how long.
        block: Duration,
    },
    /// An event happened again in the last ten seconds, to the same limiter or to one of many.
    #[non_exhaustive]
    Repeated {
        /// The last one.
        event: Box<Event>,
        /// How often it happened since it was reported.
        more: u64,
    },
    /// The configured and the stored configuration of a limiter differed, and were reconciled.
    Reconciled {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// How.
        outcome: Reconciled,
        /// The quota that no longer applies here: the stored one that was replaced, or this process's
        /// own where it follows another. `None` if there is none.
        old: Option<Quota>,
        /// The quota in force.
        new: Quota,
    },
    /// The store does not answer; `on_store_error` decides from now on. Reported when an outage begins, and
    /// every minute while it lasts; a store that comes and goes within ten seconds is one outage. Each node of a cluster
    /// has outages of its own.
    #[non_exhaustive]
    StoreDown {
        /// What it said last.
        error: StoreError,
        /// The address of the node of a cluster that does not answer; `None` for a single server, and where a cluster
        /// as a whole refuses calls.
        node: Option<Arc<str>>,
        /// The slots that the node served, such as `0-5460`.
        slots: Option<Arc<str>>,
    },
    /// The store answers again.
    #[non_exhaustive]
    StoreUp {
        /// The node of a cluster that did not answer. Another one may serve its slots now.
        node: Option<Arc<str>>,
        /// Its slots.
        slots: Option<Arc<str>>,
    },
    /// The store refuses for a reason that lasts, or a function that cannot carry a rejection has no
    /// numbers. Calls are rejected, or counted locally where the function cannot.
    Misconfigured {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// What the store said.
        error: StoreError,
    },
    /// A template has as many keys with limiters of their own as `max_keys` allows; new keys share one limiter.
    KeysShared {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// The bound.
        max_keys: u32,
    },
    /// A peer with a wrong clock wrote grants into the future, or the server's clock stepped back.
    /// They count from now on.
    ClockAhead {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// How far in the future.
        ahead: Duration,
    },
    /// Redis may evict keys when memory is short, and limits with them.
    EvictionPossible {
        /// Its `maxmemory-policy`, which should be `noeviction`.
        policy: String,
    },
    /// The store's user may not read or write which processes share the store, so this process cannot
    /// tell which of them live. Limits hold all the same. Reported once.
    MembersUnavailable {
        /// What the store said.
        error: StoreError,
    },
    /// A changed limits file was read.
    Reloaded,
    /// A changed limits file is not usable; the old limits stay.
    ReloadFailed {
        /// What is wrong with it.
        error: SetupError,
    },
}

impl Event {
    /// The event as a metric's label says it.
    fn word(&self) -> &'static str {
        match self {
            Self::EmbeddedStore => "embedded_store",
            Self::NotInstalled { .. } => "not_installed",
            Self::Unmatched { .. } => "unmatched",
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
            Self::Reloaded => "reloaded",
            Self::ReloadFailed { .. } => "reload_failed",
        }
    }

    /// The template of the limiter that it is about.
    fn limiter(&self) -> Option<&Arc<str>> {
        match self {
            Self::Disabled { limiter }
            | Self::ShadowMode { limiter }
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

    #[cfg(feature = "tracing")]
    fn is_quiet(&self) -> bool {
        match self {
            Self::StoreUp { .. } | Self::Reloaded | Self::EmbeddedStore | Self::Rejected { .. } => {
                true
            }
            Self::Repeated { event, .. } => event.is_quiet(),
            _ => false,
        }
    }

    /// How often it happened since it was last reported.
    #[cfg(feature = "tracing")]
    fn count(&self) -> u64 {
        if let Self::Repeated { more, .. } = self { *more } else { 1 }
    }

    /// What it is reported as once in a while.
    fn topic(&self) -> &'static str {
        match self {
            Self::Reconciled { outcome, .. } => outcome.word(),
            other => other.word(),
        }
    }

    /// Whether it can happen with every call.
    fn is_bounded(&self) -> bool {
        matches!(
            self,
            Self::Blocked { .. }
                | Self::Reconciled { .. }
                | Self::Misconfigured { .. }
                | Self::ClockAhead { .. }
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmbeddedStore => f.write_str(
                "no Redis is named, so rate limits hold within this process only; \
                 set `store` in the limits file or `RATELIMIT_STORE` to share them",
            ),
            Self::NotInstalled { error } => {
                write!(
                    f,
                    "rate limits were used before they were installed, and cannot be: {error}"
                )
            }
            Self::Unmatched { key } => {
                write!(f, "`{key}` in the limits file matches no limiter of this program")
            }
            Self::Disabled { limiter } => write!(f, "rate limit `{limiter}` is turned off"),
            Self::ShadowMode { limiter } => {
                write!(f, "rate limit `{limiter}` is in shadow mode and refuses nobody")
            }
            Self::WouldReject { rejection } => {
                write!(
                    f,
                    "shadow mode admitted a call that would have been rejected or delayed: {rejection}"
                )
            }
            Self::Rejected { rejection } => write!(f, "a call was rejected: {rejection}"),
            Self::Blocked { limiter, block } => {
                write!(f, "a key of rate limit `{limiter}` is blocked for {block:?}")
            }
            Self::Repeated { event, more } => write!(f, "{event} ({more} more in 10 s)"),
            Self::Reconciled { limiter, outcome, old, new } => match outcome {
                Reconciled::Created => {
                    write!(f, "rate limit `{limiter}` created in the store: {new}")
                }
                Reconciled::Unchanged => {
                    write!(f, "rate limit `{limiter}` matches the stored configuration: {new}")
                }
                Reconciled::Reset => {
                    write!(
                        f,
                        "stored configuration of rate limit `{limiter}` replaced by ours; usage was \
                         reset{}",
                        Change(old, new)
                    )
                }
                Reconciled::Carried => write!(
                    f,
                    "stored configuration of rate limit `{limiter}` replaced by ours; permits in use \
                     still count{}",
                    Change(old, new)
                ),
                Reconciled::Followed => write!(
                    f,
                    "rate limit `{limiter}` has a newer configuration in the store; this process uses \
                     it{}",
                    Change(old, new)
                ),
            },
            Self::StoreDown { error, node, slots } => {
                write!(f, "rate limits cannot reach {}: {error}", Reached(node, slots))
            }
            Self::StoreUp { node, slots } => {
                write!(f, "rate limits reach {} again", Reached(node, slots))
            }
            Self::Misconfigured { limiter, error } => {
                write!(f, "rate limit `{limiter}` cannot be counted as it should: {error}")
            }
            Self::KeysShared { limiter, max_keys } => write!(
                f,
                "rate limit `{limiter}` has {max_keys} keys, as `max_keys` allows; new keys share one limiter"
            ),
            Self::ClockAhead { limiter, ahead } => write!(
                f,
                "rate limit `{limiter}` holds grants dated {ahead:?} in the future; check the clocks of \
                 its Java peers and of the server"
            ),
            Self::EvictionPossible { policy } => write!(
                f,
                "Redis evicts keys by `{policy}` when memory is short, and rate limits with them; \
                 set `maxmemory-policy noeviction`"
            ),
            Self::MembersUnavailable { error } => {
                write!(f, "processes that share the rate limit store are unknown: {error}")
            }
            Self::Reloaded => f.write_str("rate limits reloaded"),
            Self::ReloadFailed { error } => {
                write!(f, "rate limits not reloaded, the old ones stay: {error}")
            }
        }
    }
}

/// What an outage is of: `their store`, or `slots 0-5460 of their store (10.0.0.1:7001)`.
struct Reached<'a>(&'a Option<Arc<str>>, &'a Option<Arc<str>>);

impl fmt::Display for Reached<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(Some(node), Some(slots)) => write!(f, "slots {slots} of their store ({node})"),
            _ => f.write_str("their store"),
        }
    }
}

/// The quotas of a change, appended to its message: `: 10 per 1m to 5 per 1m`.
struct Change<'a>(&'a Option<Quota>, &'a Quota);

impl fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(Some(old), new) => write!(f, ": {old} to {new}"),
            Self(None, new) => write!(f, ": {new}"),
        }
    }
}

pub(crate) type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// Who receives events.
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

    /// A rejection, which costs no more than to be counted where the limiter has just rejected another.
    pub(crate) fn rejected(&self, count: &Arc<AtomicU64>, rejection: &Rejection) {
        self.0.counted(count, || Event::Rejected { rejection: rejection.clone() });
    }

    /// A call whose key is beyond `max_keys`, which costs no more either.
    pub(crate) fn shared(&self, count: &Arc<AtomicU64>, limiter: &Arc<str>, max_keys: u32) {
        self.0.counted(count, || Event::KeysShared { limiter: Arc::clone(limiter), max_keys });
    }
}

impl Shared {
    fn publish(&self, event: &Event) {
        #[cfg(feature = "tracing")]
        {
            let limiter = event.limiter().map(|limiter| &**limiter);
            let (kind, count) = (event.word(), event.count());
            if event.is_quiet() {
                tracing::info!(target: "ratelimit", kind, limiter, count, "{event}");
            } else {
                tracing::warn!(target: "ratelimit", kind, limiter, count, "{event}");
            }
        }
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
