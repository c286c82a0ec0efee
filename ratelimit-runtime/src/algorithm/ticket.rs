//! What a reservation leaves behind, and what others find of it.

/// The most ticks a caller can reserve ahead: with as many as a bucket can hold (2^52) they stay
/// below 2^53, and so does the time at which they are gone.
pub(super) const MOST_AHEAD: u64 = 1 << 51;

/// Permits in use as other numbers, or another rule, find them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Promised {
    /// What is taken, reserved and owed.
    pub(super) permits: u64,
    /// The milliseconds until the last reservation begins.
    pub(super) lead: u64,
    /// What is left of them when that begins.
    pub(super) last: u64,
}

impl Promised {
    /// What it is in a bucket of these numbers. However fast that drains, as much is left when the last
    /// reservation begins as there would have been.
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
    /// What was stored before, where a bucket warms up.
    pub(crate) stored: u64,
}
