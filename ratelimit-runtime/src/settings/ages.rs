//! The time since which each limiter has had its configuration, across all readings of the limits file.

use std::collections::HashMap;

use ratelimit_spec::{LimiterEntry, LimitsFile};
use tokio::time::Instant;

/// When each part of the limits file last changed.
///
/// A reading that leaves the part of a limiter as it was does not make that limiter's configuration
/// any younger, even if the limiter has been evicted from the cache.
#[derive(Clone, Debug)]
pub(super) struct Ages {
    /// When the file was first read.
    first: Instant,
    default: Instant,
    prefixes: Instant,
    /// The entries that changed, were added or were removed.
    entries: HashMap<String, Instant>,
}

impl Ages {
    pub(super) fn new(first: Instant) -> Self {
        Self { first, default: first, prefixes: first, entries: HashMap::new() }
    }

    /// Returns the ages after another reading.
    pub(super) fn read_again(
        &self,
        before: Option<&LimitsFile>,
        after: Option<&LimitsFile>,
        now: Instant,
    ) -> Self {
        let mut ages = self.clone();
        if before.map(|file| &file.default) != after.map(|file| &file.default) {
            ages.default = now;
        }
        if before.map(|file| &file.prefixes) != after.map(|file| &file.prefixes) {
            ages.prefixes = now;
        }
        let (before, after) = (entries(before), entries(after));
        for key in before.keys().chain(after.keys()) {
            if before.get(key) != after.get(key) {
                ages.entries.insert((*key).to_owned(), now);
            }
        }
        ages
    }

    /// Returns since when the limiter of this name has had its configuration; `prefixed` if the
    /// prefixes apply to it.
    pub(super) fn of(&self, key: Option<&str>, name: &str, prefixed: bool) -> Instant {
        let entry = |key| self.entries.get(key).copied().unwrap_or(self.first);
        let prefixes = if prefixed { self.prefixes } else { self.first };
        self.default.max(prefixes).max(entry(key.unwrap_or(name))).max(entry(name))
    }

    /// Returns whether an entry of this name changed.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }
}

fn entries(file: Option<&LimitsFile>) -> HashMap<&str, &LimiterEntry> {
    let entries = file.into_iter().flat_map(|file| &file.limiters);
    entries.map(|entry| (&*entry.key, entry)).collect()
}
