//! What this process grants by itself while the store is unavailable.
//!
//! It starts from what is known: its share of what was left by the last reply. When the store is back,
//! what was granted meanwhile and still counts is charged to it, before this process takes more of the
//! limiter; and as long as other processes may not have found it, it takes no more than its share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

use tokio::time::Instant;

use super::core::Core;
use crate::{Clock, algorithm::State, store::MemoryStore};

/// Counts limiters against this process's share of their quotas.
pub(crate) struct Local {
    /// What is counted, from the first call on that the store did not decide.
    pub(super) counts: MemoryStore,
    counted: Mutex<HashMap<String, Counted>>,
    /// Whether there are any, to be read without a lock.
    pub(super) any: AtomicBool,
}

/// How a limiter is counted here.
pub(super) enum Counted {
    /// Instead of the store.
    Alone(Arc<Begun>),
    /// With the store, until then.
    Too(Instant),
}

/// A limiter that this process counts instead of the store.
pub(super) struct Begun {
    pub(super) core: Arc<Core>,
    /// What the store knows of what is used. Locked while a charge is on its way.
    pub(super) known: tokio::sync::Mutex<State>,
}

impl Local {
    pub(crate) fn new(clock: Clock) -> Self {
        let counts = MemoryStore::new(clock);
        Self { counts, counted: Mutex::default(), any: AtomicBool::new(false) }
    }

    pub(super) fn counted(&self) -> MutexGuard<'_, HashMap<String, Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
