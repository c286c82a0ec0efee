//! What operators should hear of, told once and in one place.

use std::{fmt, sync::Arc, time::Duration};

use crate::{Quota, Rejection, SetupError, StoreError, metrics, store::Reconciled};

/// Something an operator should hear of.
///
/// With the feature `tracing` each one is an event of target `ratelimit`; a callback given to
/// [`LimitsBuilder::on_event`](crate::LimitsBuilder::on_event) gets them all.
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
    /// The configured and the stored configuration of a limiter were reconciled.
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
    /// every minute while it lasts; a store that comes and goes within ten seconds is one outage.
    StoreDown {
        /// What it said last.
        error: StoreError,
    },
    /// The store answers again.
    StoreUp,
    /// The store refuses for a reason that lasts, and the function cannot carry a rejection: the
    /// local policy decides.
    Misconfigured {
        /// The limiter's key as it was written.
        limiter: Arc<str>,
        /// What the store said.
        error: StoreError,
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
            Self::Reconciled { .. } => "reconciled",
            Self::StoreDown { .. } => "store_down",
            Self::StoreUp => "store_up",
            Self::MembersUnavailable { .. } => "members_unavailable",
            Self::Misconfigured { .. } => "misconfigured",
            Self::ClockAhead { .. } => "clock_ahead",
            Self::EvictionPossible { .. } => "eviction_possible",
            Self::Reloaded => "reloaded",
            Self::ReloadFailed { .. } => "reload_failed",
        }
    }

    /// The template of the limiter that it is about.
    #[cfg(feature = "tracing")]
    fn limiter(&self) -> Option<&str> {
        match self {
            Self::Disabled { limiter }
            | Self::ShadowMode { limiter }
            | Self::Reconciled { limiter, .. }
            | Self::Misconfigured { limiter, .. }
            | Self::ClockAhead { limiter, .. } => Some(limiter),
            Self::WouldReject { rejection } => Some(rejection.limiter()),
            _ => None,
        }
    }

    #[cfg(feature = "tracing")]
    fn is_quiet(&self) -> bool {
        matches!(
            self,
            Self::StoreUp
                | Self::Reloaded
                | Self::EmbeddedStore
                | Self::Reconciled { outcome: Reconciled::Created | Reconciled::Unchanged, .. }
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
            Self::StoreDown { error } => write!(f, "rate limits cannot reach their store: {error}"),
            Self::StoreUp => f.write_str("rate limits reach their store again"),
            Self::Misconfigured { limiter, error } => {
                write!(f, "rate limit `{limiter}` is counted locally, its store refuses: {error}")
            }
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

/// Who is told of events.
#[derive(Clone, Default)]
pub(crate) struct Events {
    callback: Option<Callback>,
}

impl Events {
    pub(crate) fn to(callback: Option<Callback>) -> Self {
        Self { callback }
    }

    pub(crate) fn emit(&self, event: &Event) {
        metrics::count_event(event.word());
        #[cfg(feature = "tracing")]
        if event.is_quiet() {
            tracing::info!(target: "ratelimit", kind = event.word(), limiter = event.limiter(), "{event}");
        } else {
            tracing::warn!(target: "ratelimit", kind = event.word(), limiter = event.limiter(), "{event}");
        }
        if let Some(callback) = &self.callback {
            callback(event);
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("callback", &self.callback.is_some()).finish()
    }
}
