//! How often a limiter said what.

use std::sync::{Mutex, PoisonError, atomic::AtomicU64};

use crate::store::Reconciled;

/// How often a limiter said what; for `report()`.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) allowed: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) degraded: AtomicU64,
    pub(crate) shadowed: AtomicU64,
    /// Until when nobody is to be told of what shadow mode lets through.
    pub(crate) quiet_until_ms: AtomicU64,
    pub(crate) reconciled: Mutex<Vec<(Reconciled, u64)>>,
}

impl Tally {
    pub(super) fn reconciled(&self, outcome: Reconciled) {
        let mut counts = self.reconciled.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, count)) => *count += 1,
            None => counts.push((outcome, 1)),
        }
    }
}
