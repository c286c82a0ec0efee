//! The time since which each limiter has had its configuration, across all readings of the limits file.

use std::collections::HashMap;

use ratelimit_spec::{LimiterEntry, LimitsFile, PrefixEntry, limits_file::MAX_LIMITERS};
use tokio::time::Instant;

/// The most removed names of which the age is known: as many as a limits file can have.
const MOST_REMOVED: usize = MAX_LIMITERS;

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
        let forgotten = [
            note_changes(&mut ages.prefixes, (prefixes(before), prefixes(after)), now),
            note_changes(&mut ages.entries, (entries(before), entries(after)), now),
        ];
        // As if the default had changed then.
        ages.default = forgotten.into_iter().flatten().fold(ages.default, Instant::max);
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

/// Notes the parts that differ before and after a reading. If too many parts were removed, forgets the older half, and
/// returns when the last of these changed.
fn note_changes<T: PartialEq>(
    ages: &mut HashMap<String, Instant>,
    (before, after): (HashMap<&str, &T>, HashMap<&str, &T>),
    now: Instant,
) -> Option<Instant> {
    for key in before.keys().chain(after.keys()) {
        if before.get(key) != after.get(key) {
            ages.insert((*key).to_owned(), now);
        }
    }
    let is_removed = |key: &str| !after.contains_key(key);
    let removed = ages.iter().filter(|(key, _)| is_removed(key));
    let mut removed: Vec<Instant> = removed.map(|(_, changed)| *changed).collect();
    if removed.len() <= MOST_REMOVED {
        return None;
    }
    removed.sort_unstable();
    let last = removed[removed.len() / 2];
    ages.retain(|key, changed| !is_removed(key) || *changed > last);
    Some(last)
}

fn prefixes(file: Option<&LimitsFile>) -> HashMap<&str, &PrefixEntry> {
    let prefixes = file.into_iter().flat_map(|file| &file.prefixes);
    prefixes.map(|entry| (&*entry.prefix, entry)).collect()
}

fn entries(file: Option<&LimitsFile>) -> HashMap<&str, &LimiterEntry> {
    let entries = file.into_iter().flat_map(|file| &file.limiters);
    entries.map(|entry| (&*entry.key, entry)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn file(names: impl Iterator<Item = usize>) -> LimitsFile {
        let entries: String = names.map(|n| format!(" k{n:x}: {{}}\n")).collect();
        LimitsFile::parse(&format!("limiters:\n{entries}")).unwrap()
    }

    #[test]
    fn names_that_come_and_go_are_not_kept_for_good() {
        let first = crate::clock::instant();
        let mut ages = Ages::new(first);
        let at = |round: u32| first + Duration::from_secs(round.into());
        let kept = file([usize::MAX].into_iter());
        let mut before = kept.clone();
        for round in 1..=6 {
            let start = round as usize * 5_000;
            let next = file((start..start + 5_000).chain([usize::MAX]));
            ages = ages.read_again(Some(&before), Some(&next), at(round));
            before = next;
        }
        assert!(ages.entries.len() <= MOST_REMOVED + 5_000, "{}", ages.entries.len());
        let since = |name: usize| ages.of(None, &format!("k{name:x}"), None);
        assert_eq!(since(6 * 5_000), at(6), "it is in the file");
        assert_eq!(since(5 * 5_000), at(6), "it was removed last");
        // A forgotten one is never taken for older than its last change.
        assert!(since(5_000) >= at(2) && since(5_000) < at(6));
        assert_eq!(ages.default, since(usize::MAX));
    }
}
