//! The text of events.

use std::{fmt, sync::Arc};

use super::Event;
use crate::{Mode, Quota, store::Reconciled};

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmbeddedStore => f.write_str(
                "no Redis is configured, so rate limits apply to this process only; to share them, set \
                 `RATELIMIT_STORE`, or `store` in the limits file, which is `ratelimit.yaml` in the working directory \
                 or the path in `RATELIMIT_LIMITS`",
            ),
            Self::NotInstalled { error } => {
                write!(
                    f,
                    "rate limits were used before `install`, and the default setup failed: {error}"
                )
            }
            Self::LimitsFileMissing { file } => write!(
                f,
                "this program was compiled with the limits file `{file}`, but finds none now, so only its attributes \
                 apply, and a `rate` and `per` of that file where they have none; deploy the file as `ratelimit.yaml` \
                 in the working directory, set `RATELIMIT_LIMITS` to its path, or call `no_limits_file`"
            ),
            Self::Unmatched { key, template, similar } => {
                write!(f, "`{key}` in the limits file matches no limiter in this program")?;
                match (template, similar) {
                    (Some(template), _) => write!(
                        f,
                        "; for calls of `{template}` with this name, write it in the `overrides` there"
                    ),
                    (None, Some(similar)) => write!(f, "; did you mean `{similar}`?"),
                    (None, None) => Ok(()),
                }
            }
            Self::NoEffect { limiter, conflict } => write!(
                f,
                "a setting of the limits file for rate limit `{limiter}` does not apply as written: {conflict}"
            ),
            Self::Disabled { limiter } => write!(f, "rate limit `{limiter}` is disabled"),
            Self::ShadowMode { limiter } => {
                write!(f, "rate limit `{limiter}` is in shadow mode and is not enforced")
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
            Self::Reconciled { limiter, outcome, old, new, modes } => match outcome {
                Reconciled::Created => {
                    write!(f, "rate limit `{limiter}` created in the store: {new}")
                }
                Reconciled::Unchanged => {
                    write!(f, "rate limit `{limiter}` matches the stored configuration: {new}")
                }
                Reconciled::Reset => {
                    write!(
                        f,
                        "stored configuration of rate limit `{limiter}` replaced by that of this process; usage was \
                         reset{}",
                        Change(old, new, modes)
                    )
                }
                Reconciled::Carried => write!(
                    f,
                    "stored configuration of rate limit `{limiter}` replaced by that of this process; permits in use \
                     still count{}",
                    Change(old, new, modes)
                ),
                Reconciled::Followed => write!(
                    f,
                    "rate limit `{limiter}` has a newer configuration in the store; this process uses \
                     it{}",
                    Change(old, new, modes)
                ),
            },
            Self::StoreDown { error, node, slots } => {
                write!(f, "rate limit store is unavailable{}: {error}", Part(node, slots))
            }
            Self::StoreUp { node, slots } => {
                write!(f, "rate limit store is available again{}", Part(node, slots))
            }
            Self::Misconfigured { limiter, error } => {
                write!(f, "rate limit `{limiter}` cannot be enforced as configured: {error}")
            }
            Self::KeysShared { limiter, max_keys } => write!(
                f,
                "rate limit `{limiter}` has {max_keys} keys, the most that `max_keys` allows; new keys share \
                 one limiter"
            ),
            Self::ClockAhead { limiter, ahead } => write!(
                f,
                "rate limit `{limiter}` has grants dated {ahead:?} in the future; check the clocks of the \
                 Redis server and of Java clients"
            ),
            Self::EvictionPossible { policy } => write!(
                f,
                "Redis may evict rate limits under `maxmemory-policy {policy}`; \
                 set `maxmemory-policy noeviction`"
            ),
            Self::UntrustedProxy { network } => write!(
                f,
                "a request from a peer in {network} carries a proxy header that names a client; it is ignored \
                 because the peer is not among the `trusted_proxies`; if it is a proxy, add its network there, or all clients \
                 behind it share one limit"
            ),
            Self::MembersUnavailable { error } => {
                write!(f, "the processes that share the rate limit store are unknown: {error}")
            }
            Self::LayersDiffer { limiter } => write!(
                f,
                "layers with the template `{limiter}` have different settings, and each key gets those of the layer that \
                 sees it first; write the same settings in all of them, or another template"
            ),
            Self::Reloaded => f.write_str("limits file reloaded"),
            Self::NeedsRestart { setting } => write!(
                f,
                "`{setting}` of the limits file has changed, but is only read at startup; restart the program to use it"
            ),
            Self::ReloadFailed { error } => {
                write!(f, "limits file not reloaded, previous limits stay active: {error}")
            }
        }
    }
}

/// The part of the store that an outage concerns: ` for slots 0-5460 (10.0.0.1:7001)`; empty for the whole store.
struct Part<'a>(&'a Option<Arc<str>>, &'a Option<Arc<str>>);

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(Some(node), Some(slots)) => write!(f, " for slots {slots} ({node})"),
            _ => Ok(()),
        }
    }
}

/// The quotas of a change, appended to its message: `: 10 per 1m to 5 per 1m`.
struct Change<'a>(&'a Option<Quota>, &'a Quota, &'a Option<(Mode, Mode)>);

impl fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(old, new, modes) = self;
        match old {
            Some(old) => write!(f, ": {old} to {new}")?,
            None => write!(f, ": {new}")?,
        }
        match modes {
            Some((old, new)) => write!(f, ", mode {old} to {new}"),
            None => Ok(()),
        }
    }
}
