//! At most `rate` permits in any window of length `per`.
//!
//! A log remembers who took how many permits when; a permit is free again when its age is `per`.
//! Refused calls leave no trace. Grants made together are one entry, and beyond
//! [`MERGE_AT`] entries later grants share time buckets that are dated at their end: a permit
//! may come back late by 2 % of the window, never early.

use std::collections::VecDeque;

use super::{Verdict, meter::Meter};

/// Entries beyond which grants share time buckets. With 51 of those a log stays below 128 entries,
/// up to which Redis stores it compactly.
const MERGE_AT: usize = 64;

/// The grants of the last window, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    used: u64,
    /// Permits that are owed: whatever becomes free pays for them first, as of then.
    debt: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    permits: u64,
}

impl Log {
    /// A log of so many permits that were just taken; what is above the rate is owed.
    pub(super) fn taken(used: u64, rate: u64, now: u64) -> Self {
        let permits = used.min(rate);
        let entry = Some(Entry { at: now, permits }).filter(|entry| entry.permits > 0);
        let entries = entry.into_iter().collect();
        Self { entries, used: permits, debt: used - permits }
    }

    /// The permits that are in use by a window of this length, and owed.
    pub(super) fn used(&self, per: u64, now: u64) -> u64 {
        let counts = |entry: &&Entry| entry.at.saturating_add(per) > now;
        let counted = self.entries.iter().filter(counts);
        counted.fold(self.debt, |used, entry| used.saturating_add(entry.permits))
    }

    pub(super) fn debt(&self) -> u64 {
        self.debt
    }

    /// Takes permits, or says when they will be free.
    pub(crate) fn acquire(&mut self, rate: u64, per: u64, permits: u64, now: u64) -> Verdict {
        let mut open = self.open(rate, per, std::iter::once(permits), now);
        let fits = permits <= open.free();
        let Verdict { granted, remaining, .. } = open.answer(permits, fits);
        Verdict { granted, remaining, ahead: open.ahead, ..open.outlook(permits) }
    }

    /// Brings the log up to date for requests at one instant, whose grants are one entry.
    pub(super) fn open(
        &mut self,
        rate: u64,
        per: u64,
        costs: impl Iterator<Item = u64>,
        now: u64,
    ) -> OpenLog<'_> {
        let expired = self.expire(rate, per, now);
        let asked = costs.filter(|&cost| cost <= rate).fold(0, u64::saturating_add);
        let looked = expired || self.used.saturating_add(asked).saturating_add(self.debt) > rate;
        let ahead = if looked { self.restamp(now, now.saturating_add(bucket(per))) } else { 0 };
        let mut open = OpenLog { log: self, rate, per, now, ahead, entry: None };
        if open.log.debt > 0 {
            open.pay();
        }
        open
    }

    /// What [`acquire`](Self::acquire) would say, without taking anything.
    pub(crate) fn peek(&self, rate: u64, per: u64, permits: u64, now: u64) -> Verdict {
        let mut copy = self.clone();
        copy.expire(rate, per, now);
        let free = rate.saturating_sub(copy.used).saturating_sub(copy.debt);
        Verdict {
            granted: permits <= free,
            remaining: if permits > rate { rate } else { free },
            retry_after: copy.retry_after(rate, per, permits, now),
            reset_after: copy.full_after(per, now).saturating_add(copy.owed_for(rate, per)),
            more_after: copy.retry_after(rate, per, free.saturating_add(1), now),
            ahead: 0,
        }
    }

    /// Drops what is a window old; an entry made at `t` is free again at `t + per`.
    pub(super) fn expire(&mut self, rate: u64, per: u64, now: u64) -> bool {
        let before = self.entries.len();
        if self.debt > 0 {
            self.pay_as_freed(rate, per, now);
        }
        while let Some(oldest) = self.entries.front()
            && oldest.at.saturating_add(per) <= now
        {
            self.used = self.used.saturating_sub(oldest.permits);
            self.entries.pop_front();
        }
        self.entries.len() < before
    }

    /// What is owed takes permits as they become free, and they are dated then: a debt is paid in the
    /// same time whether anybody calls or not.
    fn pay_as_freed(&mut self, rate: u64, per: u64, now: u64) {
        let Some(newest) = self.entries.back().map(|newest| newest.at) else { return };
        if self.used <= rate {
            // Windows in which the whole log was paid with, all at once.
            let passed = now.saturating_sub(newest) / per.max(1);
            let windows = passed.min(self.debt / self.used.max(1));
            self.debt -= windows * self.used;
            for entry in &mut self.entries {
                entry.at += windows * per;
            }
        }
        let mut paid = Vec::new();
        while self.debt > 0
            && let Some(oldest) = self.entries.front()
            && oldest.at.saturating_add(per) <= now
        {
            let Entry { at, permits } = *oldest;
            self.entries.pop_front();
            self.used = self.used.saturating_sub(permits);
            let permits = permits.min(self.debt).min(rate.saturating_sub(self.used));
            if permits > 0 {
                self.debt -= permits;
                self.used += permits;
                paid.push(Entry { at: at + per, permits });
            }
        }
        if !paid.is_empty() {
            self.entries.extend(paid);
            self.entries.make_contiguous().sort_by_key(|entry| entry.at);
        }
    }

    /// After the clock stepped back, what lies in the future counts from now. Returns how far in
    /// the future it was.
    fn restamp(&mut self, now: u64, latest: u64) -> u64 {
        let Some(newest) = self.entries.back().filter(|newest| newest.at > latest) else {
            return 0;
        };
        let ahead = newest.at - now;
        for entry in &mut self.entries {
            if entry.at > latest {
                entry.at = now;
            }
        }
        self.entries.make_contiguous().sort_by_key(|entry| entry.at);
        ahead
    }

    /// Gives permits back, the oldest ones, so that no window can hold too many. Returns how many
    /// there were to give back.
    pub(crate) fn release(&mut self, rate: u64, per: u64, permits: u64, now: u64) -> u64 {
        self.expire(rate, per, now);
        let owed = permits.min(self.debt);
        self.debt -= owed;
        let mut left = permits - owed;
        while left > 0
            && let Some(oldest) = self.entries.front_mut()
        {
            let back = left.min(oldest.permits);
            oldest.permits -= back;
            left -= back;
            self.used = self.used.saturating_sub(back);
            if oldest.permits == 0 {
                self.entries.pop_front();
            }
        }
        permits - left
    }

    /// Gives back permits that were taken at this time and are in use. Returns how many there were to
    /// give back.
    pub(super) fn give_back(&mut self, per: u64, permits: u64, at: u64, now: u64) -> u64 {
        if at.saturating_add(per) <= now {
            return 0;
        }
        let mut left = permits;
        for entry in self.entries.iter_mut().filter(|entry| entry.at == at) {
            let back = left.min(entry.permits);
            entry.permits -= back;
            left -= back;
        }
        self.entries.retain(|entry| entry.permits > 0);
        self.used = self.used.saturating_sub(permits - left);
        permits - left
    }

    /// Whether it says no more than a new one.
    pub(crate) fn is_idle(&self, per: u64, now: u64) -> bool {
        self.debt == 0
            && self.entries.back().is_none_or(|newest| newest.at.saturating_add(per) <= now)
    }

    /// Writes a grant down and returns which entry it is in.
    fn record(&mut self, permits: u64, per: u64, now: u64) -> usize {
        self.used = self.used.saturating_add(permits);
        let mut at = now;
        if self.entries.len() >= MERGE_AT {
            at = now.checked_next_multiple_of(bucket(per)).unwrap_or(u64::MAX);
            if let Some(newest) = self.entries.back_mut()
                && newest.at == at
            {
                newest.permits = newest.permits.saturating_add(permits);
                return self.entries.len() - 1;
            }
        }
        let place = self.entries.partition_point(|entry| entry.at <= at);
        self.entries.insert(place, Entry { at, permits });
        place
    }

    /// Until so many permits can be taken, counted oldest first: 0 when they can be now, or never.
    fn retry_after(&self, rate: u64, per: u64, permits: u64, now: u64) -> u64 {
        // What is owed is paid first. What it takes is free again a window later.
        let ahead = permits.saturating_add(self.debt);
        if permits > rate || ahead <= rate.saturating_sub(self.used) {
            return 0;
        }
        let (windows, last) = ((ahead - 1) / rate, (ahead - 1) % rate + 1);
        let paid_after = windows.saturating_mul(per);
        let mut need = self.used.saturating_add(last).saturating_sub(rate);
        if need == 0 {
            return paid_after;
        }
        for entry in &self.entries {
            need = need.saturating_sub(entry.permits);
            if need == 0 {
                let free_at = entry.at.saturating_add(per).saturating_add(paid_after);
                return free_at.saturating_sub(now).max(1);
            }
        }
        per.saturating_add(paid_after)
    }

    /// The milliseconds in which what is owed is free again once it is paid.
    fn owed_for(&self, rate: u64, per: u64) -> u64 {
        self.debt.div_ceil(rate.max(1)).saturating_mul(per)
    }

    fn full_after(&self, per: u64, now: u64) -> u64 {
        self.entries.back().map_or(0, |newest| newest.at.saturating_add(per).saturating_sub(now))
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
    /// What was taken so far.
    entry: Option<usize>,
}

impl OpenLog<'_> {
    /// Pays what is owed with what is free, such as permits that were given back. That is taken now.
    fn pay(&mut self) {
        let paid = self.free().min(self.log.debt);
        if paid > 0 {
            self.log.debt -= paid;
            self.take(paid);
        }
    }

    pub(super) fn owed(&self) -> u64 {
        self.log.debt
    }

    pub(super) fn add_debt(&mut self, permits: u64) {
        self.log.debt = self.log.debt.saturating_add(permits);
    }
}

impl Meter for OpenLog<'_> {
    fn capacity(&self) -> u64 {
        self.rate
    }

    fn free(&self) -> u64 {
        self.rate.saturating_sub(self.log.used)
    }

    fn take(&mut self, permits: u64) {
        match self.entry.and_then(|entry| self.log.entries.get_mut(entry)) {
            Some(entry) => {
                entry.permits = entry.permits.saturating_add(permits);
                self.log.used = self.log.used.saturating_add(permits);
            }
            None => self.entry = Some(self.log.record(permits, self.per, self.now)),
        }
    }

    fn wait(&self, permits: u64) -> u64 {
        self.log.retry_after(self.rate, self.per, permits, self.now)
    }

    /// A log is full again when the grants are free that were made now, or those before them.
    fn full_after(&self) -> u64 {
        let taken = self.entry.and_then(|entry| self.log.entries.get(entry));
        let full_after = match taken {
            Some(entry) => entry.at.saturating_add(self.per).saturating_sub(self.now),
            None => self.log.full_after(self.per, self.now),
        };
        full_after.saturating_add(self.log.owed_for(self.rate, self.per))
    }

    fn ahead(&self) -> u64 {
        self.ahead
    }
}

/// How coarse the log may get: a fiftieth of the window.
fn bucket(per: u64) -> u64 {
    (per / 50).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs (time, permits) requests and returns the times granted.
    fn granted(rate: u64, per: u64, requests: &[(u64, u64)]) -> Vec<u64> {
        let mut log = Log::default();
        let requests = requests.iter();
        requests
            .filter(|&&(at, permits)| log.acquire(rate, per, permits, at).granted)
            .map(|&(at, _)| at)
            .collect()
    }

    #[test]
    fn a_permit_is_free_again_at_exactly_its_age() {
        assert_eq!(granted(1, 1000, &[(0, 1), (999, 1), (1000, 1)]), [0, 1000]);
    }

    #[test]
    fn costs_count_and_refused_calls_do_not() {
        let trace = [(0, 6), (500, 5), (500, 4), (1999, 1), (2000, 6), (2499, 1), (2500, 4)];
        assert_eq!(granted(10, 2000, &trace), [0, 500, 2000, 2500]);
    }

    #[test]
    fn a_refusal_tells_the_exact_wait_for_this_many_permits() {
        let mut log = Log::default();
        for at in [0, 100, 200] {
            assert!(log.acquire(3, 1000, 1, at).granted);
        }
        for (permits, wait) in [(1, 750), (2, 850), (3, 950)] {
            let verdict = log.acquire(3, 1000, permits, 250);
            assert_eq!((verdict.granted, verdict.retry_after), (false, wait));
            assert!(!log.clone().acquire(3, 1000, permits, 250 + wait - 1).granted);
            assert!(log.clone().acquire(3, 1000, permits, 250 + wait).granted);
        }
    }

    #[test]
    fn a_batch_is_its_calls_one_by_one_as_one_entry() {
        let mut log = Log::default();
        assert!(log.acquire(10, 1000, 4, 0).granted);
        let costs = [3, 11, 5, 2, 1].into_iter();
        let verdicts = log.open(10, 1000, costs.clone(), 400).decide(costs);
        let told: Vec<_> =
            verdicts.iter().map(|v| (v.granted, v.remaining, v.retry_after)).collect();
        // Nothing is free at the end; in 600 ms four are, and five a window after the batch.
        assert_eq!(
            told,
            [(true, 3, 600), (false, 10, 0), (false, 3, 1000), (true, 1, 600), (true, 0, 600)]
        );
        assert_eq!(log.entries.len(), 2);
    }

    #[test]
    fn the_grant_of_the_last_permit_tells_when_the_next_is_free() {
        let mut log = Log::default();
        assert_eq!(log.acquire(2, 1000, 1, 0).retry_after, 0);
        assert_eq!(log.acquire(2, 1000, 1, 300).retry_after, 700);
    }

    #[test]
    fn the_log_stays_short_and_never_frees_early() {
        let mut log = Log::default();
        for at in 0..10_000 {
            assert!(log.acquire(100_000, 10_000, 3, at).granted);
        }
        assert!(log.entries.len() <= MERGE_AT + 51, "{} entries", log.entries.len());
        assert_eq!(log.used, 30_000);
        log.expire(100_000, 10_000, 15_000);
        assert!(log.used >= 30_000 - 3 * 5_001, "freed early");
        log.expire(100_000, 10_000, 15_200);
        assert!(log.used <= 30_000 - 3 * 5_001, "freed later than 2 % of the window");
    }

    #[test]
    fn a_clock_that_steps_back_locks_nobody_out_for_longer_than_a_window() {
        let mut log = Log::default();
        assert!(log.acquire(1, 1000, 1, 1_000_000).granted);
        let verdict = log.acquire(1, 1000, 1, 5_000);
        assert_eq!((verdict.granted, verdict.retry_after), (false, 1000));
        assert!(log.acquire(1, 1000, 1, 6_000).granted);
    }

    #[test]
    fn a_rate_below_what_is_used_grants_nothing_until_enough_is_free() {
        let mut log = Log::default();
        for at in 0..10 {
            assert!(log.acquire(10, 1000, 1, at).granted);
        }
        let verdict = log.acquire(3, 1000, 1, 10);
        assert_eq!((verdict.granted, verdict.remaining, verdict.retry_after), (false, 0, 997));
        assert!(log.acquire(3, 1000, 1, 1007).granted);
    }
}
