//! When to look through a collection for entries that are no longer needed.

/// The number of parts of a large collection, so that a call seldom waits for a part that another one uses, or that is
/// swept.
pub(crate) const SHARDS: usize = 64;

/// A collection is swept when it reaches a minimum size, and again when it has doubled since: so adding an entry takes
/// constant time on average.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Twice the size after the last sweep.
    next: usize,
}

impl Sweep {
    /// Returns whether a collection of this size is to be swept, if it has at least `least` entries.
    pub(crate) fn is_due(&self, len: usize, least: usize) -> bool {
        len >= self.next.max(least)
    }

    /// Records that a sweep left this many entries.
    pub(crate) fn done(&mut self, len: usize) {
        self.next = len * 2;
    }
}
