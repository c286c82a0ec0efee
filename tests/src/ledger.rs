//! Checks the admissions of a limiter, using only a record of them and the definition of its rule.
//!
//! A record has store times, permits, permits returned and added later, and changes of the rate.
//! If the exact time of an event is unknown, the record has a range of times, and the check assumes
//! the time that favors the limiter.

/// How permits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// At most the rate in any window.
    SlidingWindow,
    /// At most the rate in each window since the Unix epoch.
    FixedWindow,
    /// A bucket that drains at the rate and holds this many permits.
    TokenBucket(u64),
    /// A bucket that must be empty before a request is admitted; also one that warms up.
    LeakyBucket,
}

/// The permits of one admitted call. Times are milliseconds by the store's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// When it was admitted.
    pub at_ms: u64,
    /// The permits that it took.
    pub permits: u64,
    /// Returned permits: the earliest time, and the number.
    pub returned: Vec<(u64, u64)>,
    /// Additional permits, taken because they were free: between these times, and the number.
    pub added: Vec<(u64, u64, u64)>,
}

/// The rates of a limiter, in order.
#[derive(Clone, Debug)]
pub struct Rates {
    per_ms: u64,
    /// Not before the first time and not after the second, this rate took effect.
    changes: Vec<(u64, u64, u64)>,
    promised_ms: u64,
    rounded_ms: u64,
}

impl Rates {
    /// Creates the record of a limiter with one rate.
    #[must_use]
    pub fn new(rate: u64, per_ms: u64) -> Self {
        Self { per_ms, changes: vec![(0, 0, rate)], promised_ms: 0, rounded_ms: 1 }
    }

    /// Records a change to this rate, between these times.
    pub fn change(&mut self, from_ms: u64, until_ms: u64, rate: u64) {
        self.changes.push((from_ms, until_ms, rate));
    }

    /// Sets for how long after a change earlier reservations may still be admitted.
    pub fn promised(&mut self, ms: u64) {
        self.promised_ms = ms;
    }

    /// Sets by how much a time may be later than possible: a millisecond, and more if permits that were
    /// reserved together are admitted one after the other.
    pub fn rounded(&mut self, ms: u64) {
        self.rounded_ms = ms;
    }

    /// Returns the highest rate that may apply at this time.
    #[must_use]
    pub fn at(&self, ms: u64) -> u64 {
        let ends = |n: usize| {
            let next = self.changes.get(n + 1);
            next.map_or(u64::MAX, |(_, until, _)| until.saturating_add(self.promised_ms))
        };
        let in_force =
            |(n, (from, _, _)): &(usize, &(u64, u64, u64))| *from <= ms && ms <= ends(*n);
        self.changes
            .iter()
            .enumerate()
            .filter(in_force)
            .map(|(_, change)| change.2)
            .max()
            .unwrap_or(0)
    }

    /// Returns the most permits that a bucket drains in this time.
    fn drained(&self, from_ms: u64, until_ms: u64) -> f64 {
        let edges = self.changes.iter().enumerate().flat_map(|(n, (from, _, _))| {
            let until = self.changes.get(n + 1).map(|(_, until, _)| until + self.promised_ms + 1);
            [Some(*from), until]
        });
        let mut edges: Vec<u64> =
            edges.flatten().filter(|edge| (from_ms..until_ms).contains(edge)).collect();
        edges.extend([from_ms, until_ms]);
        edges.sort_unstable();
        let parts = edges.windows(2).map(|part| as_f64((part[1] - part[0]) * self.at(part[0])));
        parts.sum::<f64>() / as_f64(self.per_ms)
    }
}

/// A call that was admitted though its permits were not free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excess {
    /// When it was admitted.
    pub at_ms: u64,
    /// The permits in use, including its own.
    pub used: f64,
    /// The permits that may be in use.
    pub allowed: f64,
}

/// Returns the calls that should not have been admitted when they were.
#[must_use]
pub fn excesses(rule: Rule, rates: &Rates, record: &[Admission]) -> Vec<Excess> {
    let mut record: Vec<&Admission> = record.iter().filter(|one| one.permits > 0).collect();
    // Within a millisecond, in the order that favors the limiter.
    record.sort_by_key(|one| (one.at_ms, one.permits));
    match rule {
        Rule::SlidingWindow => {
            let per_ms = rates.per_ms;
            in_windows(&record, rates, |then, now| then + per_ms > now)
        }
        Rule::FixedWindow => {
            let per_ms = rates.per_ms;
            in_windows(&record, rates, |then, now| then / per_ms == now / per_ms)
        }
        Rule::TokenBucket(burst) => in_bucket(&record, rates, as_f64(burst)),
        Rule::LeakyBucket => in_bucket(&record, rates, 0.0),
    }
}

/// `counts` returns whether permits of one time still count at a later one.
fn in_windows(
    record: &[&Admission],
    rates: &Rates,
    counts: impl Fn(u64, u64) -> bool,
) -> Vec<Excess> {
    let (mut oldest, mut found) = (0, Vec::new());
    // Added permits can be newer than the call that they were added to.
    let mut added: Vec<(u64, u64, u64)> =
        record.iter().flat_map(|one| one.added.iter().copied()).collect();
    added.sort_unstable();
    let mut oldest_added = 0;
    for (n, one) in record.iter().enumerate() {
        let now = one.at_ms;
        while !counts(record[oldest].at_ms, now) {
            oldest += 1;
        }
        while added.get(oldest_added).is_some_and(|(from, ..)| !counts(*from, now) && *from < now) {
            oldest_added += 1;
        }
        let held = |one: &&Admission| {
            let back =
                one.returned.iter().filter(|(at, _)| *at <= now).map(|(_, n)| n).sum::<u64>();
            one.permits.saturating_sub(back)
        };
        let taken: u64 = record[oldest..=n].iter().map(held).sum();
        let sure = |(from, until, _): &&(u64, u64, u64)| *until < now && counts(*from, now);
        let later = added[oldest_added..].iter().take_while(|(from, ..)| *from < now);
        let used = taken + later.filter(sure).map(|(.., n)| n).sum::<u64>();
        let allowed = rates.at(now);
        if used > allowed {
            found.push(Excess { at_ms: now, used: as_f64(used), allowed: as_f64(allowed) });
        }
    }
    found
}

/// A request is admitted if the bucket still has room for it, or is empty if it has no capacity.
/// Permits added later only delay other calls, so they are left out.
fn in_bucket(record: &[&Admission], rates: &Rates, burst: f64) -> Vec<Excess> {
    enum What {
        Back(u64),
        Take(u64),
    }
    let back = |one: &&Admission| {
        one.returned.iter().map(|(at, n)| (*at, What::Back(*n))).collect::<Vec<_>>()
    };
    let mut events: Vec<(u64, What)> = record.iter().flat_map(back).collect();
    events.extend(record.iter().map(|one| (one.at_ms, What::Take(one.permits))));
    // Returned permits come first among events of one time.
    events.sort_by_key(|(at, what)| (*at, matches!(what, What::Take(_))));
    let (mut level, mut last, mut found) = (0.0_f64, 0, Vec::new());
    for (at, what) in events {
        level = (level - rates.drained(last, at)).max(0.0);
        last = at;
        match what {
            What::Back(permits) => level = (level - as_f64(permits)).max(0.0),
            What::Take(permits) => {
                let slack = as_f64(rates.at(at) * rates.rounded_ms) / as_f64(rates.per_ms) + 1e-6;
                let (used, allowed) = match burst > 0.0 {
                    true => (level + as_f64(permits), burst),
                    false => (level, 0.0),
                };
                if used > allowed + slack {
                    found.push(Excess { at_ms: at, used, allowed });
                }
                level += as_f64(permits);
            }
        }
    }
    found
}

#[expect(clippy::cast_precision_loss, reason = "permits and milliseconds of a test are small")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::{Admission, Rates, Rule, excesses};

    fn record(all: &[(u64, u64)]) -> Vec<Admission> {
        let one =
            |&(at_ms, permits): &(u64, u64)| Admission { at_ms, permits, ..Admission::default() };
        all.iter().map(one).collect()
    }

    fn count(rule: Rule, all: &[(u64, u64)]) -> usize {
        excesses(rule, &Rates::new(2, 100), &record(all)).len()
    }

    #[test]
    fn windows_are_half_open() {
        assert_eq!(count(Rule::SlidingWindow, &[(0, 2), (100, 1), (101, 1)]), 0);
        assert_eq!(count(Rule::SlidingWindow, &[(0, 1), (1, 1), (100, 1), (100, 1)]), 1);
        assert_eq!(count(Rule::FixedWindow, &[(99, 2), (100, 2), (199, 0)]), 0);
        assert_eq!(count(Rule::FixedWindow, &[(100, 2), (199, 1)]), 1);
    }

    #[test]
    fn buckets_drain() {
        assert_eq!(count(Rule::LeakyBucket, &[(0, 2), (100, 1), (150, 1)]), 0);
        assert_eq!(count(Rule::LeakyBucket, &[(0, 2), (98, 1)]), 1, "one that is late by 2 ms");
        assert_eq!(count(Rule::TokenBucket(3), &[(0, 3), (50, 1), (100, 1)]), 0);
        assert_eq!(count(Rule::TokenBucket(3), &[(0, 3), (48, 1)]), 1);
        assert_eq!(count(Rule::TokenBucket(3), &[(0, 3), (1000, 3), (1010, 1)]), 1);
    }

    #[test]
    fn what_was_given_back_may_be_taken_again() {
        let mut all = record(&[(0, 2), (10, 1)]);
        for rule in [Rule::SlidingWindow, Rule::FixedWindow, Rule::TokenBucket(2)] {
            assert_eq!(excesses(rule, &Rates::new(2, 100), &all).len(), 1, "{rule:?}");
        }
        all[0].returned.push((10, 1));
        for rule in [Rule::SlidingWindow, Rule::FixedWindow, Rule::TokenBucket(2)] {
            assert_eq!(excesses(rule, &Rates::new(2, 100), &all), [], "{rule:?}");
        }
        all[0].returned[0].0 = 11;
        assert_eq!(excesses(Rule::SlidingWindow, &Rates::new(2, 100), &all).len(), 1);
    }

    #[test]
    fn what_was_added_counts_from_when_it_is_sure() {
        let mut all = record(&[(0, 1), (10, 1)]);
        all[0].added.push((4, 9, 1));
        assert_eq!(excesses(Rule::SlidingWindow, &Rates::new(2, 100), &all).len(), 1);
        all[0].added[0].1 = 10;
        assert_eq!(excesses(Rule::SlidingWindow, &Rates::new(2, 100), &all), []);
    }

    #[test]
    fn a_rate_is_the_highest_that_may_be_in_force() {
        let mut rates = Rates::new(2, 100);
        rates.change(50, 60, 4);
        rates.change(90, 95, 1);
        let at = |ms| rates.at(ms);
        assert_eq!([at(49), at(50), at(61), at(90), at(95), at(96)], [2, 4, 4, 4, 4, 1]);
        let drained = rates.drained(0, 200);
        assert!((drained - (1.0 + 46.0 * 0.04 + 104.0 * 0.01)).abs() < 1e-9, "{drained}");
        rates.promised(20);
        assert_eq!([rates.at(115), rates.at(116)], [4, 1]);
    }
}
