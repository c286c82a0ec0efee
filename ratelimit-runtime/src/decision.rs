//! What a limiter answers.

use std::{
    slice,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::Quota;

/// The answer to one request for permits, from one round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// Whether the call may go ahead: the permits were handed out, or the limiter is in shadow mode.
    pub allowed: bool,
    /// Whether it may only because the limiter is in [shadow mode](crate::guide::shadow): it would
    /// have been refused, or made to wait, and no permits were taken.
    pub shadowed: bool,
    /// Permits left in the window after this decision; of several limits, the fewest.
    pub remaining: u64,
    /// When the same request can be granted, counted from now; `None` when it was granted, or when
    /// no wait would help a shadowed one.
    pub retry_after: Option<Duration>,
    /// When the whole quota, or that of the last of several limits, is free again, counted from now, if nobody asks until then.
    ///
    /// This is not the IETF draft's `t`, which is the time until *more* is available.
    pub reset_after: Duration,
    /// The quota in force. It is the store's, which may differ from what this process is
    /// configured with: see the crate's chapter on reconciliation. Of several limits it is the
    /// violated one with the longest wait, or on a grant the one that is used up the most.
    pub quota: Quota,
    /// Whether the store could not be asked, so that `on_store_error` answered.
    pub degraded: bool,
    /// When the decision was made, by the clock of the store: the Redis server's, or this
    /// process's for the embedded store.
    pub at: SystemTime,
    /// The limits that refuse, of a key with several.
    pub(crate) violated: Option<Arc<[Quota]>>,
}

impl Decision {
    /// The limits that refuse the call, the shortest window first; none when it was granted.
    #[must_use]
    pub fn violated(&self) -> &[Quota] {
        match &self.violated {
            _ if self.allowed && !self.shadowed => &[],
            Some(quotas) => quotas,
            None => slice::from_ref(&self.quota),
        }
    }
}

/// What became of a [charge](crate::Limiter::charge). Nothing that was charged is missing from it:
/// what was owed before and what was charged is what is taken, owed or in excess now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Charge {
    /// Permits that were free and are taken now, for what was owed before first.
    pub taken: u64,
    /// Permits that this process owes now, in all; at most as many as the limiter can ever grant at
    /// once.
    pub debt: u64,
    /// Permits beyond that, which nobody pays.
    pub excess: u64,
    /// Whether the store could not be asked: what is taken is taken from this process's share, and
    /// nothing where `on_store_error` is not `local`.
    pub degraded: bool,
}
