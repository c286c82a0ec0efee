//! Permits that this process grants by itself while the store is unavailable.
//!
//! The initial state is this process's share of what was left by the last reply. When the store is available again,
//! permits granted meanwhile that still count are charged to it before this process takes more of the limiter. As
//! long as other processes may not have noticed the recovery, this process takes no more than its share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

use tokio::time::Instant;

use super::core::Core;
use crate::{Clock, algorithm::State, store::MemoryStore};

/// Counts limiters against this process's share of their quotas.
pub(crate) struct Local {
    /// The counts since the first call that the store did not decide.
    pub(super) counts: MemoryStore,
    counted: Mutex<HashMap<String, Counted>>,
    /// Whether any limiter is counted here, readable without a lock.
    pub(super) any: AtomicBool,
}

/// How a limiter is counted here.
pub(super) enum Counted {
    /// Instead of the store.
    Alone(Arc<Begun>),
    /// In addition to the store, until this time.
    Too(Instant),
}

/// A limiter that this process counts instead of the store.
pub(super) struct Begun {
    pub(super) core: Arc<Core>,
    known: Mutex<Known>,
    /// Locked while a charge is in progress.
    pub(super) charging: tokio::sync::Mutex<()>,
}

/// The usage that the store knows of.
pub(super) struct Known {
    pub(super) state: State,
    /// What it knows of if it made the charge that has no reply yet, and the id of that charge.
    pub(super) in_doubt: Option<(State, u64)>,
}

impl Begun {
    pub(super) fn new(core: Arc<Core>, known: State) -> Self {
        Self { core, known: Mutex::new(Known::new(known)), charging: tokio::sync::Mutex::default() }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    pub(super) fn new(state: State) -> Self {
        Self { state, in_doubt: None }
    }

    /// Returns all that the store may know of.
    pub(super) fn latest(&self) -> &State {
        self.in_doubt.as_ref().map_or(&self.state, |(state, _)| state)
    }
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
