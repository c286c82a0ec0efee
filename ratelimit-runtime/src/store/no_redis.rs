//! Replaces the Redis store without the feature `redis`: no address is valid, so none is ever created.

use std::{
    convert::Infallible,
    ops::Deref,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use self::address::Address;
use super::{Heartbeat, Member, MemberId, MemoryStore, StateKeys};
use crate::{StoreError, engine::Engine, events::Events};

pub(crate) mod address {
    use std::{convert::Infallible, fmt};

    use crate::{Problem, ProblemKind};

    pub(crate) struct Address(pub(super) Infallible);

    impl Address {
        /// Rejects every address, and does not show it, since it may contain a password.
        pub(crate) fn parse(_: &str) -> Result<Self, Box<Problem>> {
            let message = "`store` is an address, which requires the crate feature `redis`; enable it, \
                           or write `memory`";
            Err(Problem::new(ProblemKind::Store, message).about("store").into())
        }

        pub(crate) fn without_tls(&self) -> Option<String> {
            match self.0 {}
        }
    }

    impl fmt::Display for Address {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.0 {}
        }
    }
}

pub(crate) struct Certificates {
    pub(crate) root: Option<Root>,
}

pub(crate) struct Root {
    pub(crate) file: Option<PathBuf>,
    pub(crate) pem: Mutex<Vec<u8>>,
}

/// A store that does not exist.
#[derive(Debug)]
pub struct RedisStore(Infallible);

/// Provides the methods of `Store`.
impl Deref for RedisStore {
    type Target = MemoryStore;

    fn deref(&self) -> &MemoryStore {
        match self.0 {}
    }
}

impl RedisStore {
    pub(crate) fn new(
        Address(never): Address,
        _: Certificates,
        _: Duration,
        _: Events,
        _: Arc<Engine>,
    ) -> Self {
        match never {}
    }

    pub(crate) fn address(&self) -> &Address {
        match self.0 {}
    }

    pub(crate) fn is_cluster(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn why_closed(&self, _: &StateKeys) -> Option<StoreError> {
        match self.0 {}
    }

    pub(crate) fn recovers_until(&self, _: &StateKeys) -> Option<Instant> {
        match self.0 {}
    }

    pub(crate) fn reopened(&self) -> Arc<Notify> {
        match self.0 {}
    }

    pub(crate) fn health(&self) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub(crate) fn end(&self) {
        match self.0 {}
    }

    pub(crate) async fn check(&self, _: &str) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub(crate) async fn check_late(&self) {
        match self.0 {}
    }

    pub(crate) async fn heartbeat(&self, _: &Heartbeat<'_>) -> Result<Vec<MemberId>, StoreError> {
        match self.0 {}
    }

    pub(crate) async fn members(&self, _: &str) -> Result<Vec<Member>, StoreError> {
        match self.0 {}
    }

    pub(crate) async fn leave(&self, _: &Heartbeat<'_>) -> Result<(), StoreError> {
        match self.0 {}
    }
}
