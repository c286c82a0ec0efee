//! The entries of a log.

use std::{collections::VecDeque, fmt};

/// The number of entries in a group.
const PLACES: usize = 4;
/// The number of groups of older entries.
const GROUPS: usize = 7;

/// How many permits were taken when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: u64,
    pub(super) permits: u64,
}

/// The entries of a log, oldest first, and its debt.
///
/// The newest are in place, so that most calls access no memory but the limiter's own, and most limiters need none.
#[derive(Clone, Default)]
pub(super) struct Entries {
    recent: Group,
    /// The number of older entries, at most [`u16::MAX`].
    before: u16,
    /// The number of older groups.
    groups: u8,
    /// Unless it is empty.
    older: Option<Box<Older>>,
}

/// The entries before the recent ones.
#[derive(Clone, Default)]
pub(super) struct Older {
    /// If there is debt, these are all entries.
    pub(super) entries: VecDeque<Entry>,
    /// It is paid first, with permits as they become free, dated at that time.
    pub(super) debt: u64,
    /// The entries after those. A call that adds some reads nothing here, so it need not wait for memory.
    groups: [Group; GROUPS],
}

/// A few entries, whose times have the upper part in common.
#[derive(Clone, Copy, Default)]
struct Group {
    at: [u32; PLACES],
    permits: [u16; PLACES],
    upper: u16,
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
        usize::from(self.before) + self.recent.len()
    }

    /// Returns whether the next entry needs no memory.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.recent.len != Len::Four || self.older.is_some() && usize::from(self.groups) < GROUPS
    }

    #[inline]
    pub(super) fn debt(&self) -> u64 {
        if self.recent.len != Len::Zero {
            return 0;
        }
        self.older.as_ref().map_or(0, |older| older.debt)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        let apart = self.older.iter().flat_map(|older| older.entries.iter().copied());
        apart.chain(self.groups().iter().flat_map(Group::iter)).chain(self.recent.iter())
    }

    fn groups(&self) -> &[Group] {
        self.older.as_ref().map_or(&[], |older| &older.groups[..self.groups.into()])
    }

    #[inline]
    pub(super) fn oldest(&self) -> Option<Entry> {
        let older = self.older.as_deref().filter(|older| !older.entries.is_empty());
        match older {
            Some(older) => older.entries.front().copied(),
            None => self.groups().first().unwrap_or(&self.recent).oldest(),
        }
    }

    /// Returns the entry with which the permits, oldest first, are at least this many.
    #[inline]
    pub(super) fn reaching(&self, permits: u64) -> Option<Entry> {
        // Usually it is the oldest.
        let oldest = self.oldest().filter(|oldest| oldest.permits >= permits);
        oldest.or_else(|| self.reaching_later(permits))
    }

    #[inline(never)]
    fn reaching_later(&self, permits: u64) -> Option<Entry> {
        let mut need = permits;
        self.iter().find(|entry| {
            need = need.saturating_sub(entry.permits);
            need == 0
        })
    }

    #[inline]
    pub(super) fn newest(&self) -> Option<Entry> {
        match self.recent.len() {
            // There are no groups then.
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
        if self.recent.len != Len::Zero {
            self.set_apart();
        }
        if self.debt() > 0 || !self.recent.push(entry) {
            self.change(|older| older.entries.push_back(entry));
        }
    }

    /// Moves the recent entries to the older ones.
    fn set_apart(&mut self) {
        if usize::from(self.groups) == GROUPS {
            self.merge();
        }
        self.before = self.before.saturating_add(self.recent.len as u16);
        let older = self.older.get_or_insert_default();
        older.groups[usize::from(self.groups)] = std::mem::take(&mut self.recent);
        self.groups += 1;
    }

    /// Moves the entries of the groups to those of which there can be any number.
    fn merge(&mut self) {
        let older = self.older.get_or_insert_default();
        let groups = &older.groups[..usize::from(self.groups)];
        older.entries.extend(groups.iter().flat_map(Group::iter));
        self.groups = 0;
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
            if older.entries.is_empty() {
                let groups = &mut older.groups[..usize::from(self.groups)];
                let mut empty = 0_u8;
                for group in &mut *groups {
                    dropped = dropped.saturating_add(group.drop_until(until));
                    if group.len != Len::Zero {
                        break;
                    }
                    empty += 1;
                }
                groups.rotate_left(empty.into());
                self.groups -= empty;
            }
            self.note_older();
        }
        if self.older.is_none() {
            dropped = dropped.saturating_add(self.recent.drop_until(until));
        }
        dropped
    }

    /// Changes entries other than the newest, or the debt. All entries are older ones then.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&mut Older) -> T) -> T {
        self.merge();
        let older = self.older.get_or_insert_default();
        older.entries.extend(self.recent.iter());
        let changed = change(older);
        self.recent = Group::default();
        self.note_older();
        changed
    }

    /// Updates what depends on the older entries.
    fn note_older(&mut self) {
        let apart = self.older.as_ref().map_or(0, |older| older.entries.len());
        let len = apart + self.groups().iter().map(Group::len).sum::<usize>();
        self.before = u16::try_from(len).unwrap_or(u16::MAX);
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

impl Group {
    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn entry(&self, n: usize) -> Entry {
        let at = u64::from(self.upper) << 32 | u64::from(self.at[n]);
        Entry { at, permits: self.permits[n].into() }
    }

    #[inline]
    fn oldest(&self) -> Option<Entry> {
        (self.len != Len::Zero).then(|| self.entry(0))
    }

    fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.len()).map(|n| self.entry(n))
    }

    /// Adds an entry, if it fits.
    #[inline]
    fn push(&mut self, Entry { at, permits }: Entry) -> bool {
        let (lower, upper) = ((at & 0xFFFF_FFFF) as u32, u16::try_from(at >> 32));
        let (Ok(permits), Ok(upper)) = (u16::try_from(permits), upper) else { return false };
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

    /// Drops the entries up to this time, and returns their permits.
    fn drop_until(&mut self, at: u64) -> u64 {
        let mut dropped = 0_u64;
        while let Some(len) = self.len.previous()
            && self.entry(0).at <= at
        {
            dropped += u64::from(self.permits[0]);
            self.at.rotate_left(1);
            self.permits.rotate_left(1);
            self.len = len;
        }
        dropped
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::noise;

    #[test]
    fn entries_stay_in_order_in_every_place() {
        // Times on both sides of one at which the upper part changes, and permits that need more than a place.
        let (mut entries, mut all) = (Entries::default(), VecDeque::<Entry>::new());
        let (mut at, mut grouped, mut longest) = (u64::from(u32::MAX) - 2_000, 0, 0);
        for random in noise(3).take(20_000) {
            let (kind, random) = (random % 16, random / 16);
            let most = [70_000, 40_000, 9][(random % 64).min(2) as usize];
            let permits = 1 + random / 64 % most;
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
                10..12 => {
                    let until = at.saturating_sub(random % 200);
                    let kept = all.partition_point(|entry| entry.at <= until);
                    let dropped: u64 = all.drain(..kept).map(|entry| entry.permits).sum();
                    assert_eq!(entries.drop_until(until), dropped);
                }
                12 if random % 9 == 0 => {
                    let change = |entries: &mut VecDeque<Entry>| entries.truncate(9);
                    entries.change(|older| change(&mut older.entries));
                    change(&mut all);
                    at = all.back().map_or(at, |newest| newest.at);
                }
                _ => {}
            }
            assert!(entries.iter().eq(all.iter().copied()), "{entries:?}, not {all:?}");
            assert_eq!(entries.len(), all.len());
            assert_eq!(
                (entries.oldest(), entries.newest()),
                (all.front().copied(), all.back().copied())
            );
            assert_eq!(entries.older.is_some(), entries.before > 0);
            if usize::from(entries.groups) == GROUPS {
                grouped += 1;
                longest = longest.max(all.len());
            }
        }
        assert!(grouped > 500 && longest > 2 * GROUPS * PLACES, "{grouped}, at most {longest}");
        assert!(at > u64::from(u32::MAX) + 2_000, "until {at}");
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_log_takes_as_much_memory_as_documented() {
        // In `docs/architecture.md`.
        assert_eq!((size_of::<Entry>(), size_of::<Older>(), size_of::<Entries>()), (16, 240, 40));
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
