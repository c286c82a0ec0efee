//! When to look through a collection for entries that are no longer needed.

use std::{collections::HashMap, hash::Hash};

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

    /// Drops the entries of a map that are no longer needed.
    pub(crate) fn run<K: Eq + Hash, V>(
        &mut self,
        map: &mut HashMap<K, V>,
        is_needed: impl FnMut(&K, &mut V) -> bool,
    ) {
        sweep(map, is_needed);
        self.done(map.len());
    }

    /// Records that a sweep left this many entries.
    pub(crate) fn done(&mut self, len: usize) {
        self.next = len * 2;
    }
}

/// Drops the entries of a map that are no longer needed, and the memory of a map that had many more.
pub(crate) fn sweep<K: Eq + Hash, V>(
    map: &mut HashMap<K, V>,
    is_needed: impl FnMut(&K, &mut V) -> bool,
) {
    map.retain(is_needed);
    let len = map.len();
    if map.capacity() > 4 * len {
        map.shrink_to(2 * len);
    }
}
