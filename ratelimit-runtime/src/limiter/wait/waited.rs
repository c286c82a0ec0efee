//! Counts the calls that wait, and for how long.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::Instant;

use crate::{clock, limiter::Core};

/// The limiter for which a call had to wait first, and since when.
pub(super) struct Waited {
    core: Arc<Core>,
    since: Instant,
}

impl Waited {
    /// Counts the wait of a call that is admitted.
    pub(super) fn count(self) {
        let row = self.core.family.row();
        row.measured.waited(clock::instant().saturating_duration_since(self.since));
        row.tally.waited.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a call that waits, in the queue or for room there, until the result is dropped.
pub(super) fn begin<'a>(core: &'a Arc<Core>, waited: &mut Option<Waited>) -> impl Sized + use<'a> {
    waited.get_or_insert_with(|| Waited { core: Arc::clone(core), since: clock::instant() });
    let row = core.family.row();
    (row.measured.waits(), row.tally.waits())
}
