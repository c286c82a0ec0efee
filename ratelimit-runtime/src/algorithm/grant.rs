//! What a caller was granted, so that it can give back exactly that.
//!
//! A store keeps no list of grants. A grant is found again by when it ends: that is when its entry in
//! a log expires, when its window is over, or when a bucket has drained it, first in first out.

use ratelimit_spec::Rule;

use super::{Config, State, Ticket};

/// Permits that one caller got, and when they are free again by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub(crate) permits: u32,
    /// By the clock of the store, in milliseconds since the Unix epoch; rounded up.
    pub(crate) ends_ms: u64,
    /// The numbers by which they were granted.
    pub(crate) config: Config,
}

impl Grant {
    /// Permits that end then, unless later callers got so many in the same step: a bucket drains those
    /// later.
    pub(crate) fn new(config: Config, permits: u32, ends_ms: u64, granted_after: u64) -> Self {
        let later = if config.drains() { drain_ms(&config, granted_after) } else { 0 };
        Self { permits, ends_ms: ends_ms.saturating_sub(later), config }
    }

    /// What a reservation stands for.
    #[must_use]
    pub fn reserved(config: Config, permits: u32, ticket: Ticket) -> Self {
        let ends_ms = ticket.empty_at_ms + u64::from(ticket.ticks > 0);
        Self { permits, ends_ms, config }
    }
}

impl Grant {
    /// The first part of a grant of a bucket, of which the last part is this many permits.
    pub(crate) fn before(self, permits: u64) -> Self {
        let ends_ms = self.ends_ms.saturating_sub(drain_ms(&self.config, permits));
        Self { ends_ms, ..self }
    }
}

/// The milliseconds in which a bucket drains so many permits, rounded up.
fn drain_ms(config: &Config, permits: u64) -> u64 {
    permits.saturating_mul(config.per_ms).div_ceil(config.rate.max(1))
}

/// A bucket's backlog as of one instant: in ticks, of which `rate` drain in a millisecond and `per` are
/// a permit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    pub(super) ticks: u64,
    pub(super) rate: u64,
    pub(super) per: u64,
    /// Whether permits are handed out one after the other.
    pub(super) spaced: bool,
}

impl Backlog {
    /// The ticks a grant still holds, and whether it is the last one. `now` is when the backlog was
    /// written last if that is later; `same` is whether it was counted by the numbers of the grant.
    ///
    /// A slot that was reserved and has not begun is held only as long as it is the last: later ones
    /// stay where they are, so that two callers never share one. Slots and permits of other numbers are
    /// held whole or not at all.
    pub(super) fn held_by(&self, grant: &Grant, same: bool, now: u64) -> (u64, bool) {
        let left = grant.ends_ms.saturating_sub(now);
        let (rate, per) = (grant.config.rate.max(1), grant.config.per_ms.max(1));
        let is_last = same && left == self.ticks.div_ceil(self.rate);
        let ends_in = left.saturating_mul(rate);
        let has_begun = ends_in <= grant.config.capacity().saturating_mul(per);
        if left == 0 || (!is_last && (self.spaced || !has_begun)) {
            return (0, false);
        }
        // A grant ends within the millisecond before `ends_ms`. At which tick is known of the last one,
        // if that is the only one to end in it, and where all grants end at the same one.
        let rounded = match (same, per.is_multiple_of(rate)) {
            (true, true) => (rate - self.ticks % rate) % rate,
            (false, true) => 0,
            (_, false) => rate - 1,
        };
        let ticks = match is_last && per >= rate {
            true => self.ticks,
            false => ends_in.saturating_sub(rounded),
        };
        let permits = u64::from(grant.permits);
        let held = match same && !self.spaced {
            true => permits.saturating_mul(self.per).min(ticks).min(self.ticks),
            false => permits.min(ticks / per).min(self.ticks / self.per) * self.per,
        };
        (held, is_last)
    }
}

impl State {
    /// Gives back what this grant still holds, and nothing of any other. Returns how many permits
    /// that were; one of a bucket that drained in part counts as one.
    pub(crate) fn give_back(&mut self, config: &Config, grant: &Grant, now: u64) -> u64 {
        let granted_by = grant.config.rule;
        match (config.rule, self) {
            (Rule::SlidingWindow, Self::Log(log)) if granted_by == Rule::SlidingWindow => {
                let at = grant.ends_ms.saturating_sub(grant.config.per_ms);
                log.give_back(config.per_ms, grant.permits.into(), at, now)
            }
            (Rule::FixedWindow { .. }, Self::Window(window))
                if matches!(granted_by, Rule::FixedWindow { .. }) && window.fits(config) =>
            {
                window.give_back(grant.permits.into(), grant.ends_ms, now)
            }
            (Rule::TokenBucket { .. } | Rule::WarmingBucket { .. } | Rule::LeakyBucket, state)
                if grant.config.drains() =>
            {
                state.drain(config, grant, now)
            }
            (
                Rule::SlidingWindow
                | Rule::TokenBucket { .. }
                | Rule::WarmingBucket { .. }
                | Rule::FixedWindow { .. }
                | Rule::LeakyBucket,
                _,
            ) => 0,
        }
    }

    /// [Gives back](Self::give_back) to a bucket.
    fn drain(&mut self, config: &Config, grant: &Grant, now: u64) -> u64 {
        if self.is_moot(config) {
            return 0;
        }
        let alike = |own: &Config| (own.rate, own.per_ms, own.rule.warm_up());
        let stale = self.is_foreign(config);
        let same = !stale && alike(config) == alike(&grant.config);
        let (back, left) = if config.rule.warm_up().is_some() {
            let mut heat = self.heat(config, now);
            (heat.give_back_grant(grant, same, now), Self::Warm(heat.warm(now)))
        } else {
            let mut level = self.level(config, now);
            (level.give_back_grant(grant, same, now), Self::Bucket(level.at(now)))
        };
        if back > 0 || stale {
            *self = left;
        }
        back
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_spec::{Algorithm, Mode};

    use super::*;

    fn ten_a_second(algorithm: Algorithm) -> Config {
        Config::new(10, 1000, Mode::Overall).rule(algorithm.rule(10))
    }

    fn granted(state: &mut State, config: Config, permits: u32, now: u64) -> Grant {
        let verdict = state.acquire(&config, permits.into(), now);
        assert!(verdict.granted, "{permits} at {now}: {verdict:?}");
        Grant { permits, ends_ms: now + verdict.reset_after, config }
    }

    fn reserved(state: &mut State, config: Config, permits: u32, now: u64) -> Grant {
        let [booking] = state.reserve(&config, &[permits], u64::MAX, now)[..] else { panic!() };
        assert!(booking.verdict.granted);
        Grant::reserved(config, permits, booking.ticket)
    }

    #[test]
    fn a_sliding_window_gets_the_entry_of_the_grant_back() {
        let (config, mut state) = (ten_a_second(Algorithm::SlidingWindow), State::default());
        let first = granted(&mut state, config, 3, 0);
        let second = granted(&mut state, config, 4, 400);
        let third = granted(&mut state, config, 3, 400);
        assert_eq!(state.give_back(&config, &second, 900), 4);
        let v = state.peek(&config, 5, 900);
        assert_eq!((v.remaining, v.retry_after), (4, 100), "the first ones are the next to expire");
        assert_eq!(state.give_back(&config, &first, 1000), 0, "its window is over");
        // Other numbers find it by the time at which it was made.
        let longer = Config { per_ms: 3000, ..config };
        assert_eq!(state.give_back(&longer, &third, 1500), 3);
        assert_eq!(state.give_back(&longer, &third, 1500), 0);
    }

    #[test]
    fn a_fixed_window_gets_permits_of_the_same_window_back() {
        let (config, mut state) = (ten_a_second(Algorithm::FixedWindow), State::default());
        let grant = granted(&mut state, config, 6, 1100);
        assert_eq!(state.clone().give_back(&config, &grant, 2000), 0, "it is over");
        assert_eq!(state.give_back(&Config { rate: 20, ..config }, &grant, 1999), 6);
        granted(&mut state, config, 6, 2100);
        assert_eq!(state.give_back(&config, &grant, 2200), 0, "these are of another window");
    }

    #[test]
    fn a_bucket_drains_first_what_was_granted_first() {
        let (config, mut state) = (ten_a_second(Algorithm::TokenBucket), State::default());
        let first = granted(&mut state, config, 5, 0);
        let second = granted(&mut state, config, 5, 0);
        let at = |now, grant| state.clone().give_back(&config, grant, now);
        assert_eq!([0, 1, 300, 500].map(|now| at(now, &first)), [5, 5, 2, 0]);
        assert_eq!([0, 300, 600, 999].map(|now| at(now, &second)), [5, 5, 4, 1]);
        let mut begun = state.clone();
        assert_eq!(begun.give_back(&config, &first, 1), 5);
        assert_eq!(begun.peek(&config, 1, 1).reset_after, 500, "what drained stays drained");
        assert_eq!(state.give_back(&config, &first, 300), 2);
        assert_eq!(state.peek(&config, 1, 300).reset_after, 500);
    }

    #[test]
    fn earlier_callers_of_a_batch_end_earlier() {
        let (config, mut state) = (ten_a_second(Algorithm::TokenBucket), State::default());
        let verdicts = state.acquire_all(&config, [2, 3].into_iter(), 0);
        let end = verdicts[0].reset_after;
        let ends = |config, permits, later| Grant::new(config, permits, end, later).ends_ms;
        assert_eq!((ends(config, 2, 3), ends(config, 3, 0)), (200, 500));
        let sliding = ten_a_second(Algorithm::SlidingWindow);
        assert_eq!(ends(sliding, 2, 3), 500, "one entry of the log");
    }

    #[test]
    fn a_grant_never_gets_more_than_it_holds_to_the_tick() {
        for (rate, per) in [(7, 1000), (13, 100), (10, 1000), (3000, 1000), (1_000_003, 997)] {
            let bucket = Rule::TokenBucket { burst: 40 };
            let config = Config::new(rate, per, Mode::Overall).rule(bucket);
            let (mut state, mut now, mut grants) = (State::default(), 0, Vec::new());
            for step in 0..400_u64 {
                now += step * 7919 % (20 * per / rate + 2);
                let permits = u32::try_from(1 + step * 31 % 9).unwrap();
                if !state.acquire(&config, permits.into(), now).granted {
                    continue;
                }
                let State::Bucket(bucket) = &state else { panic!() };
                let Ticket { empty_at_ms, ticks, .. } = bucket.ticket();
                let ends = empty_at_ms * rate + ticks;
                let ends_ms = ends.div_ceil(rate);
                grants.push((Grant { permits, ends_ms, config }, ends));
                for (grant, ends) in grants.iter().rev().take(5) {
                    let mut after = state.clone();
                    let permits = after.give_back(&config, grant, now);
                    let level = |state: &State| {
                        let State::Bucket(bucket) = state else { panic!() };
                        let Ticket { empty_at_ms, ticks, .. } = bucket.ticket();
                        (empty_at_ms * rate + ticks).saturating_sub(now * rate)
                    };
                    let back = level(&state) - level(&after);
                    let held = ends.saturating_sub(now * rate).min(u64::from(grant.permits) * per);
                    assert!(back <= held, "{back} of {held} by {rate}/{per}");
                    assert_eq!(permits, back.div_ceil(per));
                    let missed = held - back;
                    assert!(missed < rate, "{missed} are a millisecond's");
                    assert!(missed == 0 || per % rate > 0, "{grant:?} lost {missed}");
                }
            }
            assert!(grants.len() > 20, "{rate}/{per}: {}", grants.len());
        }
    }

    #[test]
    fn a_slot_comes_back_as_long_as_nothing_was_placed_after_it() {
        let leaky = ten_a_second(Algorithm::LeakyBucket);
        let warm = leaky.rule(Rule::WarmingBucket { warm_up: Duration::from_millis(1) });
        for config in [leaky, warm] {
            let mut state = State::default();
            let running = granted(&mut state, config, 1, 0);
            let middle = reserved(&mut state, config, 2, 0);
            let last = reserved(&mut state, config, 1, 0);
            assert_eq!(state.give_back(&config, &running, 0), 0, "{config:?}");
            assert_eq!(state.give_back(&config, &middle, 10), 0);
            assert_eq!(state.give_back(&config, &last, 10), 1);
            assert_eq!(state.give_back(&config, &middle, 10), 2, "now it is the last one");
            assert!(state.reserve(&config, &[1], u64::MAX, 10)[0].wait >= 90);
        }
    }

    #[test]
    fn a_reservation_of_a_token_bucket_that_has_not_begun_is_a_slot() {
        let (config, mut state) = (ten_a_second(Algorithm::TokenBucket), State::default());
        let used = granted(&mut state, config, 10, 0);
        let first = reserved(&mut state, config, 2, 0);
        let second = reserved(&mut state, config, 2, 0);
        assert_eq!(state.give_back(&config, &first, 100), 0, "the second stays where it is");
        assert_eq!(state.give_back(&config, &second, 100), 2);
        assert_eq!(state.give_back(&config, &used, 100), 9);
    }

    #[test]
    fn what_was_granted_by_other_numbers_is_given_back_in_permits() {
        let (config, mut state) = (ten_a_second(Algorithm::TokenBucket), State::default());
        let grant = granted(&mut state, config, 5, 0);
        let faster = Config { rate: 20, rule: Rule::TokenBucket { burst: 20 }, ..config };
        assert_eq!(state.give_back(&faster, &grant, 200), 3, "two were back");
        assert_eq!(state.peek(&faster, 1, 200).remaining, 20);
        let sliding = ten_a_second(Algorithm::SlidingWindow);
        assert_eq!(state.give_back(&sliding, &grant, 200), 0, "nobody knows which they are");
    }

    #[test]
    fn calls_that_outlive_their_window_and_fail_admit_no_others() {
        for (algorithm, most) in [
            (Algorithm::SlidingWindow, 10),
            (Algorithm::FixedWindow, 20),
            (Algorithm::TokenBucket, 20),
            (Algorithm::LeakyBucket, 10),
        ] {
            let (config, mut state) = (ten_a_second(algorithm), State::default());
            let (mut running, mut admitted) = (Vec::new(), Vec::new());
            for now in (0..20_000).step_by(10) {
                running.retain(|(ends, grant)| {
                    if *ends == now {
                        assert_eq!(state.give_back(&config, grant, now), 0, "{algorithm}");
                    }
                    *ends > now
                });
                let verdict = state.acquire(&config, 1, now);
                if verdict.granted {
                    let grant = Grant::new(config, 1, now + verdict.reset_after, 0);
                    running.push((now + 5000, grant));
                    admitted.push(now);
                }
            }
            let in_a_second = |from: &u64| {
                admitted.iter().filter(|at| (*from..from + 1000).contains(*at)).count()
            };
            let found = admitted.iter().map(in_a_second).max();
            assert!(found <= Some(most) && admitted.len() >= 195, "{algorithm}: {found:?}");
        }
    }
}
