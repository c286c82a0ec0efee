//! At most `rate` permits in any window of length `per`.
//!
//! A log records how many permits were taken when; a permit is free again when its age is `per`.
//! Rejected calls are not recorded. Grants made together are one entry. Beyond [`MERGE_AT`]
//! entries, later grants share time buckets that are dated at their end: a permit may become free
//! late by 2 % of the window, never early.

mod entries;

use self::entries::{Entries, Entry, Older};
use super::{
    Config, Verdict,
    meter::{Left, Meter, Owing},
};

/// The number of entries beyond which grants share time buckets. With 51 buckets a log stays below
/// 128 entries, up to which Redis stores it compactly.
const MERGE_AT: usize = 64;

/// The grants of the last window, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    entries: Entries,
    used: u64,
    /// The window it was last counted with.
    per: u64,
}

impl Log {
    /// Creates a log of this many permits that were just taken; permits above the rate are owed.
    pub(super) fn taken(used: u64, rate: u64, per: u64, now: u64) -> Self {
        let permits = used.min(rate);
        let mut log = Self { used: permits, per, ..Self::default() };
        if permits > 0 {
            log.entries.push(Entry { at: now, permits });
        }
        log.owe(used - permits);
        log
    }

    /// The permits in use in a window of this length, plus the debt. While something is owed, all permits of a
    /// window are taken, so each window since an entry paid as many.
    pub(super) fn used(&self, per: u64, now: u64) -> u64 {
        let debt = self.debt();
        let (most, mut used, mut freed) = (if debt > 0 { u64::MAX } else { 1 }, debt, 0_u64);
        for Entry { at, permits } in self.entries.iter() {
            let windows = (now.saturating_sub(at) / per.max(1)).min(most);
            used = used.saturating_add(permits);
            freed = freed.saturating_add(permits.saturating_mul(windows));
        }
        used.saturating_sub(freed)
    }

    pub(super) fn debt(&self) -> u64 {
        self.entries.debt()
    }

    fn owe(&mut self, permits: u64) {
        if permits > 0 {
            self.entries.change(|older| older.debt = older.debt.saturating_add(permits));
        }
    }

    /// Takes permits, or returns when they will be free.
    pub(crate) fn acquire(&mut self, rate: u64, per: u64, permits: u64, now: u64) -> Verdict {
        self.open(rate, per, std::iter::once(permits), now).acquire(permits)
    }

    /// Takes permits that are free, and returns what is left, or `None` if there is debt or
    /// the clock stepped back. If at least `enough` permits are left, more can be: entries expire several at once.
    #[inline]
    pub(super) fn spend(
        &mut self,
        rate: u64,
        per: u64,
        permits: u64,
        now: u64,
        enough: u64,
    ) -> Option<Left> {
        let latest = now.saturating_add(bucket(per));
        if self.debt() > 0 || self.entries.newest().is_some_and(|newest| newest.at > latest) {
            return None;
        }
        let left = |log: &Self| rate.checked_sub(log.used)?.checked_sub(permits);
        let is_due = !self.entries.has_room() || self.entries.len() >= MERGE_AT || self.per != per;
        if is_due || left(self).is_none_or(|left| left < enough) {
            self.drop_expired(per, now);
        }
        let left = left(self)?;
        Some(Left { amount: left, at: self.record(permits, per, now) })
    }

    /// Returns when the first permits in use are free again, and when those taken at a time are.
    pub(super) fn free_at(&self, at: u64, per: u64) -> (u64, u64) {
        let oldest = self.entries.oldest().map_or(at, |oldest| oldest.at);
        (oldest.saturating_add(per), at.saturating_add(per))
    }

    /// Updates the log for requests at one instant, whose grants form one entry.
    pub(super) fn open(
        &mut self,
        rate: u64,
        per: u64,
        costs: impl Iterator<Item = u64>,
        now: u64,
    ) -> OpenLog<'_> {
        let ahead = self.update(rate, per, costs, now);
        let entry = self.pay_now(rate, per, now);
        OpenLog { log: self, rate, per, now, ahead, entry }
    }

    /// Returns the verdict of [`acquire`](Self::acquire) without taking anything, after a request for what is `asked`.
    pub(super) fn peek(mut self, config: &Config, permits: u64, asked: u64, now: u64) -> Verdict {
        let Config { rate, per_ms: per, .. } = *config;
        self.update(rate, per, std::iter::once(asked), now);
        let free = rate.saturating_sub(self.used).saturating_sub(self.debt());
        Verdict {
            granted: permits <= free,
            remaining: if permits > rate { rate } else { free },
            retry_after: self.retry_after(rate, per, permits, now),
            reset_after: self.full_after(per, now).saturating_add(self.owed_for(rate, per)),
            more_after: self.retry_after(rate, per, free.saturating_add(1), now),
            ..Verdict::default()
        }
    }

    /// Drops entries that are a window old. If there were some, or a request cannot be granted, [restamps](Self::restamp).
    fn update(&mut self, rate: u64, per: u64, costs: impl Iterator<Item = u64>, now: u64) -> u64 {
        let asked = costs.filter(|&cost| cost <= rate).fold(0, u64::saturating_add);
        let wants = |log: &Self| log.used.saturating_add(asked).saturating_add(log.debt());
        let looked = self.expire(rate, per, now) || wants(self) > rate;
        if looked { self.restamp(now, now.saturating_add(bucket(per))) } else { 0 }
    }

    /// Applies a new rate or window: permits that become free by it pay the debt first.
    pub(super) fn trim(&mut self, rate: u64, per: u64, now: u64) {
        self.expire(rate, per, now);
        self.pay_now(rate, per, now);
    }

    /// Drops entries that are a window old, which pay the debt first.
    pub(super) fn expire(&mut self, rate: u64, per: u64, now: u64) -> bool {
        let before = self.entries.len();
        if self.debt() > 0 {
            self.pay_as_freed(rate, per, now);
        }
        self.drop_expired(per, now);
        self.entries.len() < before
    }

    /// Drops entries that are a window old; an entry made at `t` is free again at `t + per`.
    #[inline]
    fn drop_expired(&mut self, per: u64, now: u64) {
        self.per = per;
        if let Some(until) = now.checked_sub(per) {
            self.used = self.used.saturating_sub(self.entries.drop_until(until));
        }
    }

    /// Debt takes permits as they become free, dated at that time, so that it is paid in the same
    /// time whether calls arrive or not.
    fn pay_as_freed(&mut self, rate: u64, per: u64, now: u64) {
        let exceeds = self.used > rate;
        self.pay_once(rate, per, now);
        if exceeds {
            // No more than the rate is in use now, so that whole windows can pay.
            self.pay_once(rate, per, now);
        }
    }

    /// Pays with each entry that is a window old, once and for whole windows.
    fn pay_once(&mut self, rate: u64, per: u64, now: u64) {
        let used = &mut self.used;
        self.entries.change(|Older { entries, debt, .. }| {
            let Some(newest) = entries.back().map(|newest| newest.at) else { return };
            if *used <= rate {
                // Skips windows in which the debt took the whole log.
                let passed = now.saturating_sub(newest) / per.max(1);
                let windows = passed.min(*debt / (*used).max(1));
                *debt -= windows * *used;
                for entry in &mut *entries {
                    entry.at += windows * per;
                }
            }
            let mut paid = Vec::new();
            while *debt > 0
                && let Some(oldest) = entries.front()
                && oldest.at.saturating_add(per) <= now
            {
                let Entry { at, permits } = *oldest;
                entries.pop_front();
                *used = used.saturating_sub(permits);
                let permits = permits.min(*debt).min(rate.saturating_sub(*used));
                if permits > 0 {
                    *debt -= permits;
                    *used += permits;
                    paid.push(Entry { at: at + per, permits });
                }
            }
            if !paid.is_empty() {
                entries.extend(paid);
                entries.make_contiguous().sort_by_key(|entry| entry.at);
            }
        });
    }

    /// Debt takes permits that are free now, such as refunded ones; they count as taken now. Returns
    /// the time of their entry.
    fn pay_now(&mut self, rate: u64, per: u64, now: u64) -> Option<u64> {
        let paid = rate.saturating_sub(self.used).min(self.debt());
        if paid == 0 {
            return None;
        }
        self.entries.change(|older| older.debt -= paid);
        Some(self.record(paid, per, now))
    }

    /// After the clock stepped back, dates entries in the future as of now. Returns how far in the
    /// future they were.
    fn restamp(&mut self, now: u64, latest: u64) -> u64 {
        let Some(newest) = self.entries.newest().filter(|newest| newest.at > latest) else {
            return 0;
        };
        self.entries.change(|Older { entries, .. }| {
            for entry in entries.iter_mut().filter(|entry| entry.at > latest) {
                entry.at = now;
            }
            entries.make_contiguous().sort_by_key(|entry| entry.at);
        });
        newest.at - now
    }

    /// Releases the oldest permits, so that no window can exceed the rate. Returns how many were
    /// released.
    pub(crate) fn release(&mut self, rate: u64, per: u64, permits: u64, now: u64) -> u64 {
        self.expire(rate, per, now);
        let used = &mut self.used;
        self.entries.change(|Older { entries, debt, .. }| {
            let owed = permits.min(*debt);
            *debt -= owed;
            let mut left = permits - owed;
            while left > 0
                && let Some(oldest) = entries.front_mut()
            {
                let back = left.min(oldest.permits);
                oldest.permits -= back;
                left -= back;
                *used = used.saturating_sub(back);
                if oldest.permits == 0 {
                    entries.pop_front();
                }
            }
            permits - left
        })
    }

    /// Releases permits that were taken at this time and are in use, which pay the debt first.
    /// Returns how many were released.
    pub(super) fn give_back(
        &mut self,
        rate: u64,
        per: u64,
        permits: u64,
        at: u64,
        now: u64,
    ) -> u64 {
        if at.saturating_add(per) <= now {
            return 0;
        }
        if self.debt() > 0 {
            self.expire(rate, per, now);
        }
        let back = self.entries.change(|Older { entries, .. }| {
            let mut left = permits;
            for entry in entries.iter_mut().filter(|entry| entry.at == at) {
                let back = left.min(entry.permits);
                entry.permits -= back;
                left -= back;
            }
            entries.retain(|entry| entry.permits > 0);
            permits - left
        });
        self.used = self.used.saturating_sub(back);
        self.pay_now(rate, per, now);
        back
    }

    /// Returns whether the log is equivalent to a new one.
    pub(crate) fn is_idle(&self, now: u64) -> bool {
        let is_over = |newest: Entry| newest.at.saturating_add(self.per) <= now;
        self.debt() == 0 && self.entries.newest().is_none_or(is_over)
    }

    /// Keeps entries for as long as this window counts them.
    pub(super) fn count_within(&mut self, per: u64) {
        self.per = per;
    }

    /// Records a grant and returns the time of its entry.
    #[inline]
    fn record(&mut self, permits: u64, per: u64, now: u64) -> u64 {
        self.used = self.used.saturating_add(permits);
        let newest = self.entries.newest().map_or(0, |newest| newest.at);
        let mut at = now;
        if self.entries.len() >= MERGE_AT {
            at = now.checked_next_multiple_of(bucket(per)).unwrap_or(u64::MAX);
            if newest == at {
                self.entries.add(at, permits);
                return at;
            }
        }
        let entry = Entry { at, permits };
        if newest <= at {
            self.entries.push(entry);
        } else {
            self.entries.change(|Older { entries, .. }| {
                let place = entries.partition_point(|entry| entry.at <= at);
                entries.insert(place, entry);
            });
        }
        at
    }

    /// Returns the time until this many permits can be taken, oldest first: 0 if they can be now, or never.
    fn retry_after(&self, rate: u64, per: u64, permits: u64, now: u64) -> u64 {
        // The debt is paid first. Permits that it takes are free again a window later.
        let ahead = permits.saturating_add(self.debt());
        if permits > rate || ahead <= rate.saturating_sub(self.used) {
            return 0;
        }
        let (windows, last) = ((ahead - 1) / rate, (ahead - 1) % rate + 1);
        let paid_after = windows.saturating_mul(per);
        let need = self.used.saturating_add(last).saturating_sub(rate);
        if need == 0 {
            return paid_after;
        }
        let Some(Entry { at, .. }) = self.entries.reaching(need) else {
            return per.saturating_add(paid_after);
        };
        let free_at = at.saturating_add(per).saturating_add(paid_after);
        free_at.saturating_sub(now).max(1)
    }

    /// The milliseconds after which permits that pay the debt are free again.
    fn owed_for(&self, rate: u64, per: u64) -> u64 {
        self.debt().div_ceil(rate.max(1)).saturating_mul(per)
    }

    fn full_after(&self, per: u64, now: u64) -> u64 {
        self.entries.newest().map_or(0, |newest| newest.at.saturating_add(per).saturating_sub(now))
    }
}

/// A log as of one instant.
#[derive(Debug)]
pub(super) struct OpenLog<'a> {
    log: &'a mut Log,
    rate: u64,
    per: u64,
    now: u64,
    ahead: u64,
    /// The time of the entry of the permits taken so far.
    entry: Option<u64>,
}

impl Meter for OpenLog<'_> {
    fn capacity(&self) -> u64 {
        self.rate
    }

    fn free(&self) -> u64 {
        self.rate.saturating_sub(self.log.used)
    }

    fn take(&mut self, permits: u64) {
        match self.entry {
            Some(at) => {
                self.log.entries.add(at, permits);
                self.log.used = self.log.used.saturating_add(permits);
            }
            None => self.entry = Some(self.log.record(permits, self.per, self.now)),
        }
    }

    fn wait(&self, permits: u64) -> u64 {
        self.log.retry_after(self.rate, self.per, permits, self.now)
    }

    /// All permits are free once those granted now are, or else the earlier ones.
    fn full_after(&self) -> u64 {
        let full_after = match self.entry {
            Some(at) => at.saturating_add(self.per).saturating_sub(self.now),
            None => self.log.full_after(self.per, self.now),
        };
        full_after.saturating_add(self.log.owed_for(self.rate, self.per))
    }

    fn ahead(&self) -> u64 {
        self.ahead
    }
}

impl Owing for OpenLog<'_> {
    fn debt(&self) -> u64 {
        self.log.debt()
    }

    fn owe(&mut self, permits: u64) {
        self.log.owe(permits);
    }
}

/// The resolution of the log: a fiftieth of the window.
#[inline]
fn bucket(per: u64) -> u64 {
    (per / 50).max(1)
}

#[cfg(test)]
mod tests;
