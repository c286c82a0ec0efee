//! The entries of a log.

use std::{collections::VecDeque, fmt};

/// The maximum number of recent entries.
const PLACES: usize = 4;

/// How many permits were taken when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: u64,
    pub(super) permits: u64,
}

/// The entries of a log, oldest first, and its debt.
///
/// The newest are in place, so that most calls access no memory beside the limiter's own, and most limiters need none.
#[derive(Clone, Default)]
pub(super) struct Entries {
    recent: Recent,
    /// Unless it is empty.
    older: Option<Box<Older>>,
}

/// The entries before the recent ones. If there is debt, all entries are here.
#[derive(Clone, Debug, Default)]
pub(super) struct Older {
    pub(super) entries: VecDeque<Entry>,
    /// It is paid first, with permits as they become free, dated at that time.
    pub(super) debt: u64,
}

/// The newest entries, whose times have the upper half in common.
#[derive(Clone, Default)]
struct Recent {
    at: [u32; PLACES],
    permits: [u16; PLACES],
    upper: u32,
    /// The number of older entries, at most [`u16::MAX`].
    before: u16,
    len: Len,
}

/// A type of few values, beside which the variant of a state takes no memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Len {
    #[default]
    Zero,
    One,
    Two,
    Three,
    Four,
}

impl Entries {
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.recent.before) + self.recent.len()
    }

    /// Returns whether the next entry needs no memory.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.recent.len != Len::Four
    }

    #[inline]
    pub(super) fn debt(&self) -> u64 {
        if self.recent.len != Len::Zero {
            return 0;
        }
        self.older.as_ref().map_or(0, |older| older.debt)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        let older = self.older.iter().flat_map(|older| older.entries.iter().copied());
        older.chain((0..self.recent.len()).map(|n| self.recent.entry(n)))
    }

    #[inline]
    pub(super) fn oldest(&self) -> Option<Entry> {
        match &self.older {
            Some(older) => older.entries.front().copied(),
            None => (self.recent.len != Len::Zero).then(|| self.recent.entry(0)),
        }
    }

    #[inline]
    pub(super) fn newest(&self) -> Option<Entry> {
        match self.recent.len() {
            0 => self.older.as_ref()?.entries.back().copied(),
            len => Some(self.recent.entry(len - 1)),
        }
    }

    /// Adds an entry that is at least as new as the others.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        if self.debt() > 0 || !self.recent.push(entry) {
            self.push_apart(entry);
        }
    }

    #[inline(never)]
    fn push_apart(&mut self, entry: Entry) {
        let owes = self.change(|older| older.debt > 0);
        if owes || !self.recent.push(entry) {
            self.change(|older| older.entries.push_back(entry));
        }
    }

    /// Adds permits to the newest entry of this time.
    #[inline]
    pub(super) fn add(&mut self, at: u64, permits: u64) {
        if !self.recent.add(at, permits) {
            self.add_apart(at, permits);
        }
    }

    #[inline(never)]
    fn add_apart(&mut self, at: u64, permits: u64) {
        self.change(|older| {
            if let Some(entry) = older.entries.iter_mut().rfind(|entry| entry.at == at) {
                entry.permits = entry.permits.saturating_add(permits);
            }
        });
    }

    /// Drops the entries up to this time, and returns their permits.
    #[inline]
    pub(super) fn drop_until(&mut self, at: u64) -> u64 {
        if self.oldest().is_none_or(|oldest| oldest.at > at) {
            return 0;
        }
        self.drop_oldest(at)
    }

    #[inline(never)]
    fn drop_oldest(&mut self, until: u64) -> u64 {
        let mut dropped = 0_u64;
        if let Some(older) = &mut self.older {
            while let Some(oldest) = older.entries.front().filter(|oldest| oldest.at <= until) {
                dropped = dropped.saturating_add(oldest.permits);
                older.entries.pop_front();
            }
            self.note_older();
        }
        if self.older.is_none() {
            while let Some(permits) = self.recent.pop_until(until) {
                dropped = dropped.saturating_add(permits);
            }
        }
        dropped
    }

    /// Changes entries other than the newest, or the debt. All entries are older ones then.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&mut Older) -> T) -> T {
        let older = self.older.get_or_insert_default();
        older.entries.extend((0..self.recent.len()).map(|n| self.recent.entry(n)));
        let changed = change(older);
        self.recent = Recent::default();
        self.note_older();
        changed
    }

    /// Updates what depends on the older entries.
    fn note_older(&mut self) {
        let len = self.older.as_ref().map_or(0, |older| older.entries.len());
        self.recent.before = u16::try_from(len).unwrap_or(u16::MAX);
        if len == 0 && self.older.as_ref().is_some_and(|older| older.debt == 0) {
            self.older = None;
        }
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<_> = self.iter().collect();
        f.debug_struct("Entries").field("entries", &entries).field("debt", &self.debt()).finish()
    }
}

impl Recent {
    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn entry(&self, n: usize) -> Entry {
        let at = u64::from(self.upper) << 32 | u64::from(self.at[n]);
        Entry { at, permits: self.permits[n].into() }
    }

    /// Adds an entry, if it fits.
    #[inline]
    fn push(&mut self, Entry { at, permits }: Entry) -> bool {
        let (Ok(permits), (upper, lower)) = (u16::try_from(permits), halves(at)) else {
            return false;
        };
        let Some(len) = self.len.next() else { return false };
        if self.len != Len::Zero && self.upper != upper {
            return false;
        }
        let n = self.len();
        (self.at[n], self.permits[n], self.upper, self.len) = (lower, permits, upper, len);
        true
    }

    /// Adds permits to the newest entry, if it is of this time and they fit.
    #[inline]
    fn add(&mut self, at: u64, permits: u64) -> bool {
        let Some(n) = self.len().checked_sub(1).filter(|&n| self.entry(n).at == at) else {
            return false;
        };
        let sum = u64::from(self.permits[n]).saturating_add(permits);
        u16::try_from(sum).map(|sum| self.permits[n] = sum).is_ok()
    }

    /// Removes the oldest entry if it is of this time or before, and returns its permits.
    #[inline]
    fn pop_until(&mut self, at: u64) -> Option<u64> {
        let len = self.len.previous()?;
        let Entry { permits, .. } = Some(self.entry(0)).filter(|oldest| oldest.at <= at)?;
        self.at.rotate_left(1);
        self.permits.rotate_left(1);
        self.len = len;
        Some(permits)
    }
}

impl Len {
    fn next(self) -> Option<Self> {
        Some(match self {
            Self::Zero => Self::One,
            Self::One => Self::Two,
            Self::Two => Self::Three,
            Self::Three => Self::Four,
            Self::Four => return None,
        })
    }

    fn previous(self) -> Option<Self> {
        Some(match self {
            Self::Zero => return None,
            Self::One => Self::Zero,
            Self::Two => Self::One,
            Self::Three => Self::Two,
            Self::Four => Self::Three,
        })
    }
}

/// The upper and the lower half.
#[inline]
fn halves(at: u64) -> (u32, u32) {
    ((at >> 32) as u32, (at & 0xFFFF_FFFF) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::noise;

    #[test]
    fn entries_stay_in_order_in_both_places() {
        // Times on both sides of one at which the upper half changes, and permits that need more than a place.
        let (mut entries, mut all) = (Entries::default(), VecDeque::<Entry>::new());
        let (mut at, mut longest) = (u64::from(u32::MAX) - 2_000, 0);
        for random in noise(3).take(20_000) {
            let (kind, random) = (random % 16, random / 16);
            let permits = if random % 97 == 0 { 70_000 } else { 1 + random % 40_000 };
            match kind {
                0..8 => {
                    at += random % 3;
                    entries.push(Entry { at, permits });
                    all.push_back(Entry { at, permits });
                }
                8..10 => {
                    let newest = all.back_mut().filter(|newest| newest.at == at);
                    if let Some(newest) = newest {
                        newest.permits += permits;
                        entries.add(at, permits);
                    }
                }
                10..15 => {
                    let until = at.saturating_sub(random % 30);
                    let kept = all.partition_point(|entry| entry.at <= until);
                    let dropped: u64 = all.drain(..kept).map(|entry| entry.permits).sum();
                    assert_eq!(entries.drop_until(until), dropped);
                }
                _ => {
                    let change = |entries: &mut VecDeque<Entry>| entries.truncate(9);
                    entries.change(|older| change(&mut older.entries));
                    change(&mut all);
                    at = all.back().map_or(at, |newest| newest.at);
                }
            }
            assert!(entries.iter().eq(all.iter().copied()), "{entries:?}, not {all:?}");
            assert_eq!(entries.len(), all.len());
            assert_eq!(
                (entries.oldest(), entries.newest()),
                (all.front().copied(), all.back().copied())
            );
            assert_eq!(entries.older.is_some(), entries.recent.before > 0);
            longest = longest.max(all.len());
        }
        assert!(longest > 2 * PLACES && at > u64::from(u32::MAX) + 2_000, "{longest} until {at}");
    }

    #[test]
    fn with_debt_all_entries_can_be_changed() {
        let mut entries = Entries::default();
        entries.change(|older| older.debt = 3);
        for (at, len) in [(1, 1), (2, 2)] {
            entries.push(Entry { at, permits: 1 });
            assert_eq!((entries.debt(), entries.len()), (3, len));
        }
        assert_eq!(entries.drop_until(5), 2);
        assert_eq!((entries.debt(), entries.len()), (3, 0));
        entries.change(|older| older.debt = 0);
        assert!(entries.older.is_none());
    }

    #[test]
    fn a_few_entries_take_no_memory_of_their_own() {
        let mut entries = Entries::default();
        for at in 0..100 {
            if !entries.has_room() {
                entries.drop_until(at - 2);
            }
            entries.push(Entry { at, permits: 1 });
            assert!(entries.older.is_none());
        }
    }
}
