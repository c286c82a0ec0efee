//! Decision counters of the limiters of a key.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use crate::{Reason, count::Count, events::Occurrences, store::Reconciled};

/// Decision counters of the limiters of a key, for `report()`.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) allowed: Count,
    limited: Arc<Occurrences>,
    /// Those for other reasons, by the reason: most limiters have none.
    otherwise: OnceLock<Box<[Arc<Occurrences>; Reason::COUNT]>>,
    pub(crate) waited: AtomicU64,
    /// The number of calls that wait now.
    pub(crate) waiting: AtomicU64,
    pub(crate) degraded: AtomicU64,
    pub(crate) shadowed: AtomicU64,
    /// When the next event about what shadow mode admits is due.
    pub(crate) quiet_until_ms: AtomicU64,
    pub(crate) reconciled: Mutex<Vec<(Reconciled, u64)>>,
}

impl Tally {
    /// Creates the counters of a key that many threads may use at once.
    pub(crate) fn of_many_threads() -> Self {
        let limited = Arc::new(Occurrences::of_many_threads());
        Self { allowed: Count::of_many_threads(), limited, ..Self::default() }
    }

    /// Returns the counter of the calls that were rejected for this reason.
    #[inline]
    pub(crate) fn rejected(&self, reason: Reason) -> &Arc<Occurrences> {
        match reason {
            Reason::Limited => &self.limited,
            other => &self.otherwise.get_or_init(Box::default)[other as usize],
        }
    }

    /// Returns how many calls were rejected, for any reason.
    pub(crate) fn rejections(&self) -> u64 {
        let otherwise = self.otherwise.get().into_iter().flat_map(|counts| counts.iter());
        otherwise.map(|count| count.get()).sum::<u64>() + self.limited.get()
    }

    /// Counts a waiting call until the result is dropped.
    pub(crate) fn waits(&self) -> Waits<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waits(&self.waiting)
    }

    pub(crate) fn reconciled(&self, outcome: Reconciled) {
        let mut counts = self.reconciled.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, count)) => *count += 1,
            None => counts.push((outcome, 1)),
        }
    }
}

/// A call that waits.
pub(crate) struct Waits<'a>(&'a AtomicU64);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
