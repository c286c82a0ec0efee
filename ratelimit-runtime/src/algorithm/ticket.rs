//! What a reservation leaves in the state, and how another configuration reads it.

/// The maximum number of ticks a caller can reserve ahead: with the most a bucket can hold (2^52)
/// they stay below 2^53, and so does the time at which they have drained.
pub(super) const MOST_AHEAD: u64 = 1 << 51;

/// Permits in use, as another configuration or algorithm reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Promised {
    /// The permits taken, reserved and owed.
    pub(super) permits: u64,
    /// The milliseconds until the last reservation begins.
    pub(super) lead: u64,
    /// The permits left when that reservation begins.
    pub(super) last: u64,
}

impl Promised {
    /// Converts the permits to the ticks of a bucket with another configuration. At any drain rate,
    /// as much is left when the last reservation begins as there would have been.
    pub(super) fn ticks(self, rate: u64, per: u64) -> u64 {
        let last = self.last.max(1).saturating_mul(per);
        let until =
            if self.lead > 0 { self.lead.saturating_mul(rate).saturating_add(last) } else { 0 };
        self.permits.saturating_mul(per).max(until)
    }
}

/// What a reservation left behind. As long as it is still there, no caller reserved after it, and
/// the slot can be given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// When the bucket is empty, in milliseconds since the Unix epoch.
    pub(crate) empty_at_ms: u64,
    /// The ticks that are left in it then.
    pub(crate) ticks: u64,
    /// When the last reservation made before it begins, likewise; 0 if all of those had begun.
    pub(crate) before_ms: u64,
}
