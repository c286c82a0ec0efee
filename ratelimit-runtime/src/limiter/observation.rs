//! What the observers of a call learn of its permit.

use std::sync::{Arc, OnceLock};

use crate::Decision;

/// Empty while the permit can be settled; then the decision on a call that used what it is settled at, or `None` if
/// it was not settled.
pub(crate) type Fate = Arc<OnceLock<Option<Decision>>>;

/// The permit's side.
pub(super) struct Observation(pub(super) Fate);

impl Observation {
    /// Replaces the decision by that on a call that used what the permit is settled at.
    pub(super) fn settle(self, decision: Decision) {
        let _ = self.0.set(Some(decision));
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let _ = self.0.set(None);
    }
}
