//! The store of a set of limits.

use std::{sync::Arc, time::Duration};

use ratelimit_spec::Penalty;
use tokio::{sync::Notify, time::Instant};

use super::{
    Charge, Charged, Config, Decided, Expiry, Grant, Group, Heartbeat, KeepState, Member, MemberId,
    MemoryStore, RedisStore, Refused, Reply, Request, Reservation, StateKeys, Store, StoredConfig,
    WriteWhen,
};
use crate::{StoreError, metrics};

/// All stores, as an enum: a call reaches its decision without a pointer and a box in between.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "redis"),
    expect(clippy::large_enum_variant, reason = "the other one is never made")
)]
pub(crate) enum AnyStore {
    Memory(MemoryStore),
    Redis(RedisStore),
}

macro_rules! forward {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $output:ty;)*) => {
        impl AnyStore {$(
            pub(crate) async fn $name(&self, $($argument: $ty),*) -> Result<$output, StoreError> {
                match self {
                    Self::Memory(store) => {
                        store.health()?;
                        store.$name($($argument),*).await
                    }
                    // The future of a round trip is large, and would be part of every caller's future.
                    Self::Redis(store) => {
                        let call = Box::pin(store.$name($($argument),*));
                        metrics::timed(stringify!($name), call).await
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
    charge(request: &Request<'_>, charge: Charge) -> (Reply, Charged);
    peek(request: &Request<'_>, cost: u32) -> Reply;
    assert(request: &Request<'_>) -> Reply;
    release(keys: &StateKeys, permits: u32) -> u64;
    penalize(keys: &StateKeys, penalty: &Penalty, per_ms: u64) -> Refused;
    lift(keys: &StateKeys) -> bool;
    write(keys: &StateKeys, config: Config, when: WriteWhen, state: KeepState, hold_ms: u64) -> bool;
    read(keys: &StateKeys) -> Option<StoredConfig>;
    delete(keys: &StateKeys) -> bool;
    expire(keys: &StateKeys, expiry: Expiry) -> bool;
    ttl(keys: &StateKeys) -> Option<Duration>;
}

impl AnyStore {
    /// Sends a heartbeat, and returns the processes that were alive before it.
    pub(crate) async fn heartbeat(
        &self,
        heartbeat: &Heartbeat<'_>,
    ) -> Result<Vec<MemberId>, StoreError> {
        match self {
            Self::Memory(_) => Ok(vec![heartbeat.id]),
            Self::Redis(store) => Box::pin(store.heartbeat(heartbeat)).await,
        }
    }

    /// Returns the processes that share the store, with their counts; none if the store is not shared.
    pub(crate) async fn members(&self, key_prefix: &str) -> Result<Vec<Member>, StoreError> {
        match self {
            Self::Memory(_) => Ok(Vec::new()),
            Self::Redis(store) => Box::pin(store.members(key_prefix)).await,
        }
    }

    /// Removes this process from the live ones.
    pub(crate) async fn leave(&self, heartbeat: &Heartbeat<'_>) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Redis(store) => Box::pin(store.leave(heartbeat)).await,
        }
    }

    /// Returns an error if calls are known not to be sent to the store.
    pub(crate) fn health(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => store.health(),
            Self::Redis(store) => store.health(),
        }
    }

    /// Fails every call from now on, and closes the connections.
    pub(crate) fn end(&self) {
        match self {
            Self::Memory(_) => {}
            Self::Redis(store) => store.end(),
        }
    }

    /// Returns why calls for a limiter fail immediately, or `None` if they are sent.
    pub(crate) fn why_closed(&self, keys: &StateKeys) -> Option<StoreError> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => store.why_closed(keys),
        }
    }

    /// Returns until when other processes may not have found a limiter's server that this one found again.
    pub(crate) fn recovers_until(&self, keys: &StateKeys) -> Option<Instant> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => store.recovers_until(keys),
        }
    }

    /// Returns the `Notify` that wakes a task when calls are sent again.
    pub(crate) fn reopened(&self) -> Arc<Notify> {
        match self {
            Self::Memory(_) => Arc::default(),
            Self::Redis(store) => store.reopened(),
        }
    }

    /// Returns whether other processes use it too.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Redis(_))
    }

    /// Returns whether one call can decide about both limiters.
    pub(crate) fn one_call(&self, one: &StateKeys, other: &StateKeys) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(store) => !store.is_cluster() || one.tag() == other.tag(),
        }
    }

    /// Returns the time until a waiting call checks again: other processes may free permits early.
    pub(crate) fn look_again_after(&self, wait: Duration) -> Duration {
        match self {
            Self::Memory(_) => Duration::MAX,
            Self::Redis(_) => (wait / 10).max(Duration::from_secs(1)),
        }
    }
}
