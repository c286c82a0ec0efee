//! `rate` permits per `per` in the long run: as a token bucket up to `burst` of them at once, as a
//! leaky bucket one after the other.
//!
//! What was taken and has not come back is a backlog that drains steadily (GCRA). It is counted in
//! ticks, of which `rate` drain in a millisecond and a permit is `per`; so every number is whole.
//! [Reservations](super::reserve) and [charges](super::charge) add to it beyond what the bucket holds.

use ratelimit_spec::Algorithm;

use super::{
    Config, Grant, Ticket,
    grant::Backlog,
    meter::Meter,
    reserve::{MOST_AHEAD, Promised},
};

/// When the backlog is gone, and the numbers it was counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The millisecond, and the ticks that are left then.
    empty_at: u64,
    ticks: u64,
    rate: u64,
    per: u64,
    /// When it was last written.
    at: u64,
    /// When the last reservation begins, if that was still to come.
    last: u64,
}

/// A bucket as of one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    backlog: u64,
    rate: u64,
    per: u64,
    capacity: u64,
    /// Whether permits are handed out one after the other.
    spaced: bool,
    ahead: u64,
    /// The milliseconds until the last reservation begins.
    lead: u64,
}

impl Bucket {
    /// Whether it is counted by these numbers.
    pub(super) fn fits(&self, config: &Config) -> bool {
        (self.rate, self.per) == (config.rate, config.per_ms)
    }

    /// The permits that are not back, by the numbers it was counted by; a part counts as one.
    pub(super) fn used(&self, now: u64) -> Promised {
        let permits = self.backlog(now).div_ceil(self.per.max(1));
        Promised { permits, lead: self.lead(now) }
    }

    /// How long until it is empty.
    pub(super) fn lasts_ms(&self, now: u64) -> u64 {
        self.backlog(now).div_ceil(self.rate.max(1))
    }

    pub(super) fn is_idle(&self, now: u64) -> bool {
        self.backlog(now) == 0
    }

    /// No time has passed for a clock that stepped back.
    fn backlog(&self, now: u64) -> u64 {
        let now = now.max(self.at);
        if self.empty_at >= now {
            (self.empty_at - now).saturating_mul(self.rate).saturating_add(self.ticks)
        } else {
            self.ticks.saturating_sub((now - self.empty_at).saturating_mul(self.rate))
        }
    }

    /// The bucket by these numbers, which it [fits](Self::fits).
    pub(super) fn at(&self, config: &Config, now: u64) -> Level {
        let (backlog, lead, ahead) =
            (self.backlog(now), self.lead(now), self.at.saturating_sub(now));
        Level { backlog, lead, ahead, ..Level::empty(config) }
    }

    fn lead(&self, now: u64) -> u64 {
        self.last.saturating_sub(now.max(self.at))
    }

    /// Gives back what was reserved last, by the numbers it was reserved by. Returns how many permits
    /// there were to give back.
    pub(super) fn undo(&mut self, config: &Config, permits: u64, now: u64) -> u64 {
        let own = Config { rate: self.rate, per_ms: self.per, ..*config };
        let mut level = self.at(&own, now);
        let back = permits.min(level.backlog.div_ceil(level.per.max(1)));
        level.shorten(permits);
        *self = level.at(now);
        back
    }

    /// What tells it from any other state of the same limiter.
    pub(super) fn ticket(&self) -> Ticket {
        Ticket { empty_at_ms: self.empty_at, ticks: self.ticks, stored: 0 }
    }
}

impl Level {
    fn empty(config: &Config) -> Self {
        Self {
            backlog: 0,
            rate: config.rate.max(1),
            per: config.per_ms,
            capacity: config.capacity(),
            spaced: config.algorithm == Algorithm::LeakyBucket,
            ahead: 0,
            lead: 0,
        }
    }

    /// A bucket of which so many permits were just taken, also beyond what it holds: they were promised.
    /// Whoever reserves by these numbers comes after all of them.
    pub(super) fn new(config: &Config, used: Promised) -> Self {
        let mut level = Self { lead: used.lead, ..Self::empty(config) };
        level.backlog = used.ticks(level.rate, level.per).min(level.most() + MOST_AHEAD);
        level
    }

    /// What is left to remember: nothing of an empty one, not even when that was.
    pub(super) fn at(&self, now: u64) -> Bucket {
        let Self { backlog, rate, per, .. } = *self;
        let (empty_at, at) =
            if backlog > 0 { (now.saturating_add(backlog / rate), now) } else { (0, 0) };
        let last = if backlog > 0 && self.lead > 0 { now.saturating_add(self.lead) } else { 0 };
        Bucket { empty_at, ticks: backlog % rate, rate, per, at, last }
    }

    /// Gives permits back, and returns how many there were to give back: none of a leaky bucket whose
    /// slots are reserved, since two callers would get one.
    pub(super) fn give_back(&mut self, permits: u64) -> u64 {
        if self.spaced && self.lead > 0 {
            return 0;
        }
        let used = self.backlog.div_ceil(self.per.max(1));
        self.backlog = self.backlog.saturating_sub(self.ticks(permits));
        permits.min(used)
    }

    /// Gives back what a grant still holds, and returns how many permits that were.
    pub(super) fn give_back_grant(&mut self, grant: &Grant, same: bool, now: u64) -> u64 {
        let Self { backlog: ticks, rate, per, spaced, .. } = *self;
        let backlog = Backlog { ticks, rate, per: per.max(1), spaced };
        let (held, is_last) = backlog.held_by(grant, same, now + self.ahead);
        if is_last {
            self.shorten(held);
        } else {
            self.backlog -= self.ticks(held);
        }
        held
    }

    /// Takes the end away. The reservation before begins with the last permit that is left, or before.
    fn shorten(&mut self, permits: u64) {
        self.backlog = self.backlog.saturating_sub(self.ticks(permits));
        let own = if self.spaced { self.per } else { self.most() };
        self.lead = self.lead.min(self.backlog.saturating_sub(own).div_ceil(self.rate));
    }

    /// Somebody reserved, and goes after so many milliseconds.
    pub(super) fn promise(&mut self, wait: u64) {
        self.lead = self.lead.max(wait);
    }

    /// The permits that can be taken before any are owed.
    pub(super) fn room(&self) -> u64 {
        self.holds().saturating_sub(self.backlog) / self.per.max(1)
    }

    /// The permits that were taken beyond what it holds.
    pub(super) fn beyond(&self) -> u64 {
        self.backlog.saturating_sub(self.holds()).div_ceil(self.per.max(1))
    }

    /// What can be taken without owing it, when the last reservation begins.
    fn holds(&self) -> u64 {
        self.most().saturating_add(self.lead.saturating_mul(self.rate))
    }

    /// The permits by which the backlog can grow.
    pub(super) fn most_ahead(&self) -> u64 {
        let most = (self.most() + MOST_AHEAD).saturating_sub(self.backlog);
        most / self.per.max(1)
    }

    fn most(&self) -> u64 {
        self.ticks(self.capacity)
    }

    fn ticks(&self, permits: u64) -> u64 {
        permits.saturating_mul(self.per)
    }
}

impl Meter for Level {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A leaky bucket hands out whatever one request asks for, once it is empty.
    fn free(&self) -> u64 {
        match self.spaced {
            true if self.backlog == 0 => self.capacity,
            true => 0,
            false => self.most().saturating_sub(self.backlog) / self.per.max(1),
        }
    }

    fn take(&mut self, permits: u64) {
        self.backlog += self.ticks(permits);
    }

    fn wait(&self, permits: u64) -> u64 {
        let over = match self.spaced {
            true => self.backlog,
            false => self.backlog.saturating_sub(self.ticks(self.capacity - permits)),
        };
        over.div_ceil(self.rate)
    }

    fn full_after(&self) -> u64 {
        self.backlog.div_ceil(self.rate)
    }

    fn ahead(&self) -> u64 {
        self.ahead
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_spec::Mode;

    use super::*;
    use crate::algorithm::{State, Verdict};

    fn bucket(rate: u64, per: u64, burst: u32) -> Config {
        Config::new(rate, per, Mode::Overall).algorithm(Algorithm::TokenBucket, burst)
    }

    fn leaky(rate: u64, per: u64) -> Config {
        Config::new(rate, per, Mode::Overall).algorithm(Algorithm::LeakyBucket, 0)
    }

    /// Runs (time, permits) requests and returns the times granted.
    fn granted(config: Config, requests: &[(u64, u64)]) -> Vec<u64> {
        let mut state = State::default();
        let granted = requests.iter().filter(|(at, n)| state.acquire(&config, *n, *at).granted);
        granted.map(|(at, _)| *at).collect()
    }

    #[test]
    fn five_at_one_per_second() {
        let config = bucket(1, 1000, 5);
        let mut state = State::default();
        // (time, permits), then (granted, remaining, retry_after, reset_after).
        let trace = [
            ((0, 1), (true, 4, 0, 1000)),
            ((0, 1), (true, 3, 0, 2000)),
            ((0, 1), (true, 2, 0, 3000)),
            ((0, 1), (true, 1, 0, 4000)),
            ((0, 1), (true, 0, 1000, 5000)),
            ((0, 1), (false, 0, 1000, 5000)),
            ((999, 1), (false, 0, 1, 4001)),
            ((1000, 1), (true, 0, 1000, 5000)),
            ((1500, 1), (false, 0, 500, 4500)),
            ((3000, 3), (false, 2, 1000, 3000)),
            ((3000, 2), (true, 0, 2000, 5000)),
            ((4000, 2), (false, 1, 1000, 4000)),
            ((4000, 1), (true, 0, 1000, 5000)),
            ((9000, 5), (true, 0, 5000, 5000)),
            ((9000, 6), (false, 5, 0, 5000)),
            ((60_000, 5), (true, 0, 5000, 5000)),
        ];
        for ((at, permits), told) in trace {
            let v = state.acquire(&config, permits, at);
            assert_eq!(
                (v.granted, v.remaining, v.retry_after, v.reset_after),
                told,
                "{permits} at {at}"
            );
        }
    }

    #[test]
    fn no_part_of_a_permit_is_lost_or_gained() {
        let config = bucket(3, 1000, 3);
        let mut state = State::default();
        let permits = (0..=1_000_000).filter(|at| state.acquire(&config, 1, *at).granted).count();
        assert_eq!(permits, 3 + 3000);
    }

    #[test]
    fn a_burst_below_the_rate_spaces_and_one_above_saves_up() {
        let steps: Vec<_> = (0..=1000).step_by(50).map(|at| (at, 1)).collect();
        assert_eq!(granted(bucket(5, 1000, 1), &steps), [0, 200, 400, 600, 800, 1000]);
        let burst = [(0, 20), (0, 1), (100, 1), (2000, 19), (2000, 1)];
        assert_eq!(granted(bucket(10, 1000, 20), &burst), [0, 100, 2000]);
    }

    #[test]
    fn a_leaky_bucket_is_spaced_evenly_and_saves_nothing_up() {
        let steps: Vec<_> = (0..=1000).step_by(50).map(|at| (at, 1)).collect();
        assert_eq!(granted(leaky(4, 1000), &steps), [0, 250, 500, 750, 1000]);
        let late = [(0, 1), (5000, 1), (5000, 1), (5249, 1), (5250, 1)];
        assert_eq!(granted(leaky(4, 1000), &late), [0, 5000, 5250]);
        // Three permits are three slots, which nobody else gets.
        let costs = [(0, 3), (749, 1), (750, 4), (1749, 1), (1750, 1)];
        assert_eq!(granted(leaky(4, 1000), &costs), [0, 750, 1750]);
    }

    #[test]
    fn a_leaky_bucket_has_all_or_nothing_free() {
        let (config, mut state) = (leaky(4, 1000), State::default());
        assert_eq!(state.peek(&config, 1, 0).remaining, 4);
        let v = state.acquire(&config, 1, 0);
        assert_eq!((v.remaining, v.retry_after, v.reset_after), (0, 250, 250));
        let costs = [1, 5, 1].into_iter();
        let told: Vec<_> =
            state.acquire_all(&config, costs, 250).iter().map(|v| v.granted).collect();
        assert_eq!(told, [true, false, false], "one request at a time");
    }

    #[test]
    fn what_is_given_back_is_as_if_it_had_not_been_taken() {
        let (config, mut state) = (bucket(1, 1000, 5), State::default());
        state.acquire(&config, 3, 0);
        assert_eq!(state.release(&config, 2, 500), 2);
        assert_eq!(state.peek(&config, 1, 500).reset_after, 500);
        assert_eq!(state.release(&config, 9, 500), 1, "a part counts as one");
        assert_eq!(state.release(&config, 9, 500), 0);
        assert_eq!(state.peek(&config, 1, 500).remaining, 5, "and no more than it holds");
    }

    #[test]
    fn no_time_passes_when_the_clock_steps_back() {
        let (config, mut state) = (bucket(1, 1000, 5), State::default());
        assert!(state.acquire(&config, 3, 1_000_000).granted);
        let v = state.acquire(&config, 2, 3000);
        assert_eq!((v.granted, v.retry_after, v.reset_after), (true, 2000, 5000));
        assert_eq!(v.ahead, 1_000_000 - 3000);
        assert_eq!(state.acquire(&config, 1, 3999), Verdict { retry_after: 1, ..refused(4001) });
        assert!(state.acquire(&config, 1, 4000).granted);
        // Nor for those who hold a slot.
        assert_eq!(state.reserve(&config, &[5], 9000, 4000)[0].wait, 5000);
        let v = state.acquire(&config, 1, 100);
        assert_eq!((v.granted, v.retry_after, v.ahead), (false, 6000, 3900));
    }

    fn refused(reset_after: u64) -> Verdict {
        Verdict { reset_after, ..Verdict::default() }
    }

    /// Reserves (time, permits) with all the time there is, and returns when each may go.
    fn reserved(config: Config, requests: &[(u64, u32)]) -> Vec<u64> {
        let mut state = State::default();
        let go = |(at, n): &(u64, u32)| at + state.reserve(&config, &[*n], u64::MAX, *at)[0].wait;
        requests.iter().map(go).collect()
    }

    #[test]
    fn who_reserves_goes_in_turn() {
        assert_eq!(
            reserved(leaky(4, 1000), &[(0, 1), (0, 2), (100, 1), (700, 1)]),
            [0, 250, 750, 1000]
        );
        let bursty = reserved(bucket(5, 1000, 6), &[(0, 1), (0, 1), (0, 3), (0, 1), (0, 1)]);
        assert_eq!(bursty, [0, 0, 0, 0, 200]);
        let weighted = [(0, 1), (0, 1), (1000, 2), (2000, 4), (4000, 8), (8000, 1)];
        assert_eq!(reserved(leaky(8, 8000), &weighted), [0, 1000, 2000, 4000, 8000, 16_000]);
    }

    #[test]
    fn a_reservation_that_comes_too_late_takes_nothing() {
        let (config, mut state) = (bucket(1, 1000, 5), State::default());
        assert!(state.acquire(&config, 5, 0).granted);
        let booking = state.reserve(&config, &[3], 2999, 0)[0];
        assert_eq!((booking.verdict.granted, booking.verdict.retry_after), (false, 3000));
        let booking = state.reserve(&config, &[3], 3000, 0)[0];
        assert_eq!((booking.verdict.granted, booking.wait), (true, 3000));
        assert_eq!(state.acquire(&config, 1, 3999).retry_after, 1, "it comes after");
        assert!(!state.reserve(&config, &[6], u64::MAX, 0)[0].verdict.granted, "never");
        let most = (1 << 51) / 1000;
        let fast = bucket(1000, 1, 1);
        state = State::default();
        for (within, granted) in [(most, true), (u64::MAX, true), (u64::MAX, true)] {
            assert_eq!(state.reserve(&fast, &[1], within, 0)[0].verdict.granted, granted);
        }
    }

    #[test]
    fn the_last_reservation_can_be_given_up() {
        let (config, mut state) = (leaky(10, 1000), State::default());
        let [_, first, second] = [(); 3].map(|()| state.reserve(&config, &[1], 1000, 0)[0]);
        assert_eq!((first.wait, second.wait), (100, 200));
        assert!(!state.give_up(&config, 1, first.ticket, 10), "somebody comes after it");
        assert!(state.give_up(&config, 1, second.ticket, 10));
        assert!(!state.give_up(&config, 1, second.ticket, 10), "once");
        assert!(state.give_up(&config, 1, first.ticket, 20), "now it is the last one");
        assert_eq!(state.reserve(&config, &[1], 1000, 20)[0].wait, 80);
    }

    #[test]
    fn a_leaky_bucket_keeps_its_spacing_when_permits_are_given_back() {
        let (config, mut state) = (leaky(10, 1000), State::default());
        assert!(state.acquire(&config, 2, 0).granted);
        let waits: Vec<_> =
            state.reserve(&config, &[1, 1], 9000, 0).iter().map(|told| told.wait).collect();
        assert_eq!(waits, [200, 300]);
        assert_eq!(state.release(&config, 9, 299), 0, "their slots stay");
        assert_eq!(state.reserve(&config, &[1], 9000, 299)[0].wait, 101);
        assert_eq!(state.release(&config, 9, 400), 1, "the last one has begun");
        assert!(state.acquire(&config, 1, 400).granted);
    }

    #[test]
    fn several_callers_reserve_until_one_cannot_wait() {
        let (config, mut state) = (leaky(10, 1000), State::default());
        let told = state.reserve(&config, &[1, 2, 1, 5, 1], 300, 0);
        let waits: Vec<_> = told.iter().map(|told| (told.verdict.granted, told.wait)).collect();
        assert_eq!(waits[..3], [(true, 0), (true, 100), (true, 300)]);
        assert_eq!(waits[3..], [(false, 0), (false, 0)], "nobody goes before the fourth");
        assert_eq!(state.peek(&config, 1, 0).reset_after, 400);
    }
}
