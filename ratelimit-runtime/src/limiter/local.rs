//! What this process grants by itself while the store is unavailable.
//!
//! It starts from what is known: the share of what the last reply said is left. When the store is back,
//! what was granted meanwhile and still counts is charged to it, before this process takes more of the
//! limiter.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

use super::core::Core;
use crate::{Clock, algorithm::State, store::MemoryStore};

/// Counts limiters against this process's share of their quotas.
pub(crate) struct Local {
    /// What is counted, from the first call on that the store did not decide.
    pub(super) counts: MemoryStore,
    begun: Mutex<HashMap<String, Arc<Begun>>>,
    /// Whether any have begun, to be read without a lock.
    pub(super) any: AtomicBool,
}

/// A limiter that this process counts.
pub(super) struct Begun {
    pub(super) core: Arc<Core>,
    /// What the store knows of what is used. Locked while a charge is on its way.
    pub(super) known: tokio::sync::Mutex<State>,
}

impl Local {
    pub(crate) fn new(clock: Clock) -> Self {
        let counts = MemoryStore::new(clock);
        Self { counts, begun: Mutex::default(), any: AtomicBool::new(false) }
    }

    pub(super) fn begun(&self) -> MutexGuard<'_, HashMap<String, Arc<Begun>>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
