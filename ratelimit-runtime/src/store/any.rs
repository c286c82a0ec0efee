//! The store of a set of limits.

use std::{sync::Arc, time::Duration};

use ratelimit_spec::Penalty;
use tokio::{sync::Notify, time::Instant};

use super::{
    Charge, Charged, Config, Decided, Expiry, Grant, Group, KeepState, MemoryStore, RedisStore,
    Refused, Reply, Request, Reservation, StateKeys, Store, StoredConfig, WriteWhen,
};
use crate::{StoreError, metrics};

/// All stores, as an enum: a call reaches its decision without a pointer and a box in between.
#[derive(Debug)]
// Not `expect`: which one is large depends on the platform.
#[allow(clippy::large_enum_variant, reason = "a set of limits has one store")]
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
    /// Returns the store that other processes use too, if it is one.
    pub(crate) fn shared(&self) -> Option<&RedisStore> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => Some(store),
        }
    }

    /// Returns whether other processes use it too.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared().is_some()
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
        if let Some(store) = self.shared() {
            store.end();
        }
    }

    /// Returns why calls for a limiter fail immediately, or `None` if they are sent.
    pub(crate) fn why_closed(&self, keys: &StateKeys) -> Option<StoreError> {
        self.shared()?.why_closed(keys)
    }

    /// Returns until when other processes may not have found a limiter's server that this one found again.
    pub(crate) fn recovers_until(&self, keys: &StateKeys) -> Option<Instant> {
        self.shared()?.recovers_until(keys)
    }

    /// Returns the `Notify` that wakes a task when calls are sent again.
    pub(crate) fn reopened(&self) -> Arc<Notify> {
        self.shared().map_or_else(Arc::default, RedisStore::reopened)
    }

    /// Returns whether one call can decide about both limiters.
    pub(crate) fn one_call(&self, one: &StateKeys, other: &StateKeys) -> bool {
        self.shared().is_none_or(|store| !store.is_cluster() || one.tag() == other.tag())
    }

    /// Returns the time until a waiting call checks again: other processes may free permits early.
    pub(crate) fn look_again_after(&self, wait: Duration) -> Duration {
        if self.is_shared() { (wait / 10).max(Duration::from_secs(1)) } else { Duration::MAX }
    }
}
