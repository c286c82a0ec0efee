//! What a wait outside the limiter needs: that of a request for the end of a pause.

use super::Limiter;
use crate::{Clock, Reason, Rejection};

impl Limiter {
    /// Returns a text that only handles of the same limiter have; of combined limiters, those of the same ones in any
    /// order.
    pub(crate) fn joint_name(&self) -> String {
        let mut names: Vec<&str> = self.cores().map(|core| core.keys.config()).collect();
        names.sort_unstable();
        // With the length of each, because a name can contain any text.
        names.iter().map(|name| format!("{}:{name}", name.len())).collect()
    }

    /// Returns the clock that its waits use.
    pub(crate) fn clock(&self) -> &Clock {
        &self.limits.clock
    }

    /// Builds a rejection whose reason is outside the limiter.
    pub(crate) fn rejection(&self, reason: Reason) -> Rejection {
        self.core.rejection(reason)
    }

    /// Waits until the limits are shut down, and returns the rejection of a call that waits then.
    pub(crate) async fn shut_down(&self) -> Rejection {
        self.limits.ended().await;
        self.core.ended()
    }
}
