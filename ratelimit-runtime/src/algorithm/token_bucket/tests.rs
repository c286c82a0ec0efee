//! Traces of buckets, and reservations from them.

use ratelimit_spec::{Mode, Rule};

use super::*;
use crate::algorithm::{State, Verdict, reserve::Booking, state::tests::noise};

fn bucket(rate: u64, per: u64, burst: u32) -> Config {
    Config::new(rate, per, Mode::Overall).rule(Rule::TokenBucket { burst })
}

fn leaky(rate: u64, per: u64) -> Config {
    Config::new(rate, per, Mode::Overall).rule(Rule::LeakyBucket)
}

/// Runs (time, permits) requests and returns the times at which they were granted.
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
    // Three permits are three intervals, which no other call gets.
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
    let told: Vec<_> = state.acquire_all(&config, costs, 250).iter().map(|v| v.granted).collect();
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
    assert_eq!(
        state.acquire(&config, 1, 3999),
        Verdict { retry_after: 1, more_after: 1, ..refused(4001) }
    );
    assert!(state.acquire(&config, 1, 4000).granted);
    // Nor for calls that hold a reservation.
    assert_eq!(state.reserve(&config, &[5], 9000, 4000)[0].wait, 5000);
    let v = state.acquire(&config, 1, 100);
    assert_eq!((v.granted, v.retry_after, v.ahead), (false, 6000, 3900));
}

fn refused(reset_after: u64) -> Verdict {
    Verdict { reset_after, ..Verdict::default() }
}

/// Reserves (time, permits) without a time limit, and returns when each caller may proceed.
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
    let back = |state: &mut State, of: Booking, now| {
        state.give_back(&config, &Grant::reserved(config, 1, of.ticket, of.wait), now)
    };
    assert_eq!(back(&mut state, first, 10), 0, "another comes after it");
    assert_eq!(back(&mut state, second, 10), 1);
    assert_eq!(back(&mut state, second, 10), 0, "once");
    assert_eq!(back(&mut state, first, 20), 1, "now it is the last one");
    assert_eq!(state.reserve(&config, &[1], 1000, 20)[0].wait, 80);
}

#[test]
fn new_numbers_wait_only_for_reservations_that_are_left() {
    let (slow, fast) = (bucket(10, 1000, 10), bucket(20, 1000, 10));
    let mut state = State::default();
    assert!(state.acquire(&slow, 10, 0).granted);
    let bookings = state.reserve(&slow, &[1; 10], u64::MAX, 0);
    assert_eq!(state.release(&slow, 10, 0), 9);
    for booking in bookings[1..].iter().rev() {
        let grant = Grant::reserved(slow, 1, booking.ticket, booking.wait);
        assert_eq!(state.give_back(&slow, &grant.moved(booking.verdict.moved), 0), 1);
    }
    // One of the first ten, and the reservation that begins after 100 ms. What the release kept for
    // the rounding of times counts as one, or in new numbers as two.
    assert_eq!(state.peek(&slow, 1, 0).remaining, 7);
    assert_eq!(state.peek(&fast, 1, 0).remaining, 6);
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

/// Callers of a bucket that take, reserve and release permits, and the level of a bucket that
/// counts the admitted ones, each when it proceeds.
#[derive(Debug, Default)]
struct Callers {
    state: State,
    /// When each caller proceeds, and its grant.
    going: Vec<(u64, Grant)>,
    running: Vec<Grant>,
    level: f64,
    at: u64,
}

impl Callers {
    /// Returns by how much the bucket was over its capacity.
    fn pass(&mut self, config: &Config, now: u64) -> f64 {
        let mut over = 0.0_f64;
        self.going.sort_by_key(|(at, _)| *at);
        while self.going.first().is_some_and(|(at, _)| *at <= now) {
            let (at, grant) = self.going.remove(0);
            self.drain(config, at);
            self.level += f64::from(grant.permits);
            self.running.push(grant);
            over = over.max(self.level - as_f64(config.capacity()));
        }
        self.drain(config, now);
        over
    }

    fn drain(&mut self, config: &Config, now: u64) {
        let drained = as_f64((now - self.at) * config.rate) / as_f64(config.per_ms);
        (self.level, self.at) = ((self.level - drained).max(0.0), now);
    }

    fn take(&mut self, config: Config, permits: u32, now: u64) {
        let verdict = self.state.acquire(&config, permits.into(), now);
        if verdict.granted {
            let grant = Grant::new(config, permits, now + verdict.reset_after, 0);
            self.going.push((now, grant.moved(verdict.moved)));
        }
    }

    fn reserve(&mut self, config: Config, costs: &[u32], now: u64) {
        for (booking, permits) in self.state.reserve(&config, costs, 40, now).iter().zip(costs) {
            if booking.verdict.granted {
                let grant = Grant::reserved(config, *permits, booking.ticket, booking.wait);
                self.going.push((now + booking.wait, grant.moved(booking.verdict.moved)));
            }
        }
    }

    fn give_back(&mut self, config: Config, chosen: usize, now: u64) {
        let newest = self.running.len().saturating_sub(15);
        let last = self.running.len() - 1;
        let grant = self.running.remove((newest + chosen).min(last));
        let back = self.state.give_back(&config, &grant, now);
        self.level = (self.level - as_f64(back)).max(0.0);
    }

    /// Cancels the last reservations, as long as that works.
    fn give_up(&mut self, config: Config, now: u64) {
        self.going.sort_by_key(|(at, _)| *at);
        while let Some((at, grant)) = self.going.pop() {
            if at <= now || self.state.give_back(&config, &grant, now) == 0 {
                self.going.push((at, grant));
                break;
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

/// Returns the most permits by which a bucket was over its capacity, with random callers.
fn most_over(rate: u64, burst: u32, costs: u64, changes: bool, seed: u64) -> f64 {
    let (mut callers, mut now, mut most) = (Callers::default(), 0, 0.0_f64);
    let mut random = noise(seed);
    let mut below = |most: u64| random.next().unwrap() % most;
    let mut config = bucket(rate, 250, burst);
    for step in 0..1500 {
        now += below(4);
        // The higher of two rates counts, for as long as it may.
        let judged = if changes { bucket(rate * 5 / 4, 250, burst) } else { config };
        most = most.max(callers.pass(&judged, now));
        if changes && step % 50 == 0 {
            config.rate = if step % 100 == 0 { rate * 5 / 4 } else { rate };
        }
        let mut cost = || u32::try_from(1 + below(costs)).unwrap();
        let wanted = [cost(), cost(), cost(), cost()];
        match below(9) {
            0 | 1 => callers.take(config, wanted[0], now),
            2..=5 => callers.reserve(config, &wanted, now),
            6 => callers.give_up(config, now),
            _ => {
                let count = if below(4) == 0 { 20 } else { 1 };
                for _ in 0..count.min(callers.running.len()) {
                    callers.give_back(config, usize::try_from(below(15)).unwrap(), now);
                }
            }
        }
    }
    // The reserved permits have drained, and then all others.
    now += 40 + config.span_ms(config.capacity()) + 5;
    let left = callers.state.peek(&config, 1, now).remaining;
    assert_eq!(left, u64::from(burst), "after quiet time");
    most
}

#[test]
fn a_bucket_admits_no_more_than_it_holds_whatever_comes_back() {
    for (rate, burst, costs) in [(400, 20, 4), (400, 20, 20), (40, 3, 1), (500, 500, 9)] {
        for changes in [false, true] {
            let over = |seed| most_over(rate, burst, costs, changes, seed);
            let most = (1..40).map(over).fold(0.0, f64::max);
            // Times are whole milliseconds.
            assert!(most <= as_f64(rate) / 250.0, "{most} by {rate}, {burst}, {costs}, {changes}");
        }
    }
}

#[test]
fn rates_to_and_fro_do_not_pile_up_what_nobody_reserved() {
    let (slow, fast) = (bucket(400, 250, 20), bucket(500, 250, 20));
    let mut state = State::default();
    let [.., last] = state.reserve(&slow, &[4; 165], u64::MAX, 0)[..] else { panic!() };
    for now in 0..100 {
        let config = if now % 2 == 0 { fast } else { slow };
        assert_eq!(state.reserve(&config, &[1], 0, now)[0].wait, 0);
        state.charge(&config, 0, 0, now);
    }
    let wait = state.reserve(&slow, &[1], u64::MAX, 100)[0].wait;
    // At each change a partial permit counts as one.
    assert!(wait <= last.wait - 100 + 63, "{wait} ms, after {} before", last.wait);
}
