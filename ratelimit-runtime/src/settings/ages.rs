//! The time since which each limiter has had its configuration, across all readings of the limits file.

use std::collections::HashMap;

use ratelimit_spec::{LimiterEntry, LimitsFile, PrefixEntry};
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
    /// The prefixes that changed, were added or were removed.
    prefixes: HashMap<String, Instant>,
    /// The entries that changed, were added or were removed.
    entries: HashMap<String, Instant>,
}

impl Ages {
    pub(super) fn new(first: Instant) -> Self {
        Self { first, default: first, prefixes: HashMap::new(), entries: HashMap::new() }
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
        note_changes(&mut ages.prefixes, (prefixes(before), prefixes(after)), now);
        note_changes(&mut ages.entries, (entries(before), entries(after)), now);
        ages
    }

    /// Returns since when the limiter of this name has had its configuration. A prefix of `matched` bytes applies to
    /// `prefixed`, if the prefixes do; shorter ones have no effect, because the first match decides.
    pub(super) fn of(
        &self,
        key: Option<&str>,
        name: &str,
        prefixed: Option<(&str, usize)>,
    ) -> Instant {
        let entry = |key| self.entries.get(key).copied().unwrap_or(self.first);
        let of_name = |(prefix, _): &(&String, &Instant)| {
            prefixed.is_some_and(|(name, matched)| {
                name.starts_with(prefix.as_str()) && prefix.len() >= matched
            })
        };
        let prefixes = self.prefixes.iter().filter(of_name).map(|(_, changed)| *changed);
        let entries = entry(key.unwrap_or(name)).max(entry(name));
        prefixes.fold(self.default.max(entries), Instant::max)
    }

    /// Returns whether an entry of this name changed.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }
}

/// Notes the parts that differ before and after a reading.
fn note_changes<T: PartialEq>(
    ages: &mut HashMap<String, Instant>,
    (before, after): (HashMap<&str, &T>, HashMap<&str, &T>),
    now: Instant,
) {
    for key in before.keys().chain(after.keys()) {
        if before.get(key) != after.get(key) {
            ages.insert((*key).to_owned(), now);
        }
    }
}

fn prefixes(file: Option<&LimitsFile>) -> HashMap<&str, &PrefixEntry> {
    let prefixes = file.into_iter().flat_map(|file| &file.prefixes);
    prefixes.map(|entry| (&*entry.prefix, entry)).collect()
}

fn entries(file: Option<&LimitsFile>) -> HashMap<&str, &LimiterEntry> {
    let entries = file.into_iter().flat_map(|file| &file.limiters);
    entries.map(|entry| (&*entry.key, entry)).collect()
}
