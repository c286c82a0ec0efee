//! Releasing the permits that a grant still holds.

use ratelimit_spec::Rule;

use super::{Config, Grant, State};

impl State {
    /// Releases the permits that this grant still holds, and none of any other grant. Returns their
    /// number; a permit that a bucket drained in part counts as one.
    pub(crate) fn give_back(&mut self, config: &Config, grant: &Grant, now: u64) -> u64 {
        let granted_by = grant.config.rule;
        match (config.rule, self) {
            (Rule::SlidingWindow, Self::Log(log)) if granted_by == Rule::SlidingWindow => {
                let at = grant.ends_ms.saturating_sub(grant.config.per_ms);
                log.give_back(config.rate, config.per_ms, grant.permits.into(), at, now)
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

    /// [Releases](Self::give_back) the permits of a grant of a bucket.
    fn drain(&mut self, config: &Config, grant: &Grant, now: u64) -> u64 {
        if self.is_moot(config) {
            return 0;
        }
        // The position of the grant in a backlog of another configuration is unknown.
        let alike = |own: &Config| (own.rate, own.per_ms, own.rule.warm_up());
        if self.is_foreign(config) || alike(config) != alike(&grant.config) {
            return 0;
        }
        let (back, left) = if config.rule.warm_up().is_some() {
            let mut heat = self.heat(config, now);
            (heat.give_back_grant(grant, now), Self::Warm(Box::new(heat.warm(now))))
        } else {
            let mut level = self.level(config, now);
            (level.give_back_grant(grant, now), Self::Bucket(level.at(now)))
        };
        if back > 0 {
            *self = left;
        }
        back
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_spec::{Algorithm, Mode};

    use super::{super::state::tests::noise, *};

    fn ten_a_second(algorithm: Algorithm) -> Config {
        Config::new(10, 1000, Mode::Overall).rule(algorithm.rule(10))
    }

    fn granted(state: &mut State, config: Config, permits: u32, now: u64) -> Grant {
        let verdict = state.acquire(&config, permits.into(), now);
        assert!(verdict.granted, "{permits} at {now}: {verdict:?}");
        Grant::new(config, permits, now + verdict.reset_after, 0).moved(verdict.moved)
    }

    fn reserved(state: &mut State, config: Config, permits: u32, now: u64) -> Grant {
        let [booking] = state.reserve(&config, &[permits], u64::MAX, now)[..] else { panic!() };
        assert!(booking.verdict.granted);
        Grant::reserved(config, permits, booking.ticket, booking.wait).moved(booking.verdict.moved)
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
        // Another configuration finds the grant by the time at which it was made.
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

    /// Grants in the order in which a bucket drains them, exact to the tick, which a bucket itself does not track.
    #[derive(Debug, Default)]
    struct InOrder {
        held: Vec<(usize, u64)>,
        at: u64,
    }

    impl InOrder {
        fn pass(&mut self, to: u64, rate: u64) {
            let mut drained = (to - self.at) * rate;
            self.at = to;
            for (_, ticks) in &mut self.held {
                let now = drained.min(*ticks);
                (*ticks, drained) = (*ticks - now, drained - now);
            }
            self.held.retain(|(_, ticks)| *ticks > 0);
        }

        fn held_by(&mut self, grant: usize) -> Option<&mut u64> {
            self.held.iter_mut().find(|(n, _)| *n == grant).map(|(_, ticks)| ticks)
        }
    }

    /// Grants permits at random and releases random grants, with `running` of them at a time.
    /// Returns the ticks that the released grants held, and those that were not released.
    fn give_back_at_random(rate: u64, per: u64, running: usize, seed: u64) -> (u64, u64) {
        let bucket = Rule::TokenBucket { burst: 40 };
        let config = Config::new(rate, per, Mode::Overall).rule(bucket);
        let (mut state, mut order, mut now) = (State::default(), InOrder::default(), 0);
        let (mut grants, mut held_in_all, mut missed_in_all) = (Vec::new(), 0, 0);
        for (n, random) in noise(seed).take(3000).enumerate() {
            now += random % (3 * per / rate + 2);
            order.pass(now, rate);
            let permits = u32::try_from(1 + random / 1000 % 9).unwrap();
            if state.peek(&config, permits.into(), now).granted {
                let grant = granted(&mut state, config, permits, now);
                order.held.push((n, u64::from(permits) * per));
                grants.push((n, grant));
            }
            if grants.len() > running || random / 100_000 % 3 == 0 && !grants.is_empty() {
                let chosen = usize::try_from(random / 1_000_000).unwrap() % grants.len();
                let (n, grant) = grants.remove(chosen);
                let ticks = |state: &State| match state {
                    State::Bucket(bucket) => bucket.ticks_left(now),
                    _ => 0,
                };
                let before = ticks(&state);
                let permits = state.give_back(&config, &grant, now);
                let back = before - ticks(&state);
                let mut nothing = 0;
                let held = order.held_by(n).unwrap_or(&mut nothing);
                assert!(back <= *held, "{back} of {held} by {rate}/{per} at {now}, {grant:?}");
                assert_eq!(permits, back.div_ceil(per));
                held_in_all += *held;
                // In which part of a millisecond a grant ends is not always known.
                let known = if per.is_multiple_of(rate) { 0 } else { rate };
                missed_in_all += (*held - back).saturating_sub(known);
                *held -= back;
            }
        }
        (held_in_all, missed_in_all)
    }

    #[test]
    fn a_grant_never_gets_what_others_hold() {
        for (rate, per) in [(7, 1000), (13, 100), (10, 1000), (3000, 1000), (1_000_003, 997)] {
            for (running, seed) in [(3, 1), (6, 2), (30, 3), (30, 4)] {
                let (held, missed) = give_back_at_random(rate, per, running, seed);
                assert!(held > 0, "{rate}/{per}");
                assert!(missed * 100 <= held, "{rate}/{per}: {missed} of {held} lost");
            }
        }
    }

    #[test]
    fn what_moved_forward_is_drained_earlier() {
        let (config, mut state) = (ten_a_second(Algorithm::TokenBucket), State::default());
        let first = granted(&mut state, config, 10, 0);
        let second = reserved(&mut state, config, 2, 0);
        assert_eq!(state.give_back(&config, &first, 100), 8);
        granted(&mut state, config, 9, 310);
        assert_eq!(state.give_back(&config, &second, 410), 0, "these are of the third");
    }

    #[test]
    fn calls_that_fail_in_any_order_give_everything_back() {
        for seed in 1..50 {
            let (config, mut state) = (ten_a_second(Algorithm::TokenBucket), State::default());
            let mut grants: Vec<_> = (0..10).map(|_| granted(&mut state, config, 1, 0)).collect();
            for random in noise(seed).take(10) {
                let chosen = usize::try_from(random % 10).unwrap() % grants.len();
                assert_eq!(state.give_back(&config, &grants.remove(chosen), 0), 1, "{seed}");
            }
            assert_eq!(state.peek(&config, 1, 0).remaining, 10);
        }
    }

    #[test]
    fn new_numbers_end_what_was_granted_before() {
        let (config, mut state) = (ten_a_second(Algorithm::TokenBucket), State::default());
        let first = granted(&mut state, config, 10, 0);
        let faster = Config { rate: 1000, ..config };
        assert_eq!(state.give_back(&faster, &first, 0), 0);
        assert!(!state.acquire(&faster, 1, 0).granted);
        granted(&mut state, faster, 10, 20);
        assert_eq!(state.peek(&config, 1, 25).remaining, 5);
        granted(&mut state, config, 1, 25);
        assert_eq!(state.give_back(&config, &first, 30), 0, "nor when they are as they were");
    }

    #[test]
    fn a_grant_of_a_whole_bucket_has_begun_although_its_end_is_rounded_up() {
        let config = Config::new(7, 1000, Mode::Overall).rule(Rule::TokenBucket { burst: 40 });
        for take in [granted, reserved] {
            let mut state = State::default();
            let whole = take(&mut state, config, 40, 0);
            assert_eq!(state.charge(&config, 5, 9, 0).0.debt, 5);
            assert_eq!(state.give_back(&config, &whole, 0), 40);
            assert_eq!(state.peek(&config, 1, 0).remaining, 34, "less up to a millisecond's worth");
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
        assert_eq!(state.give_back(&config, &used, 100), 8, "the first must not drain before 200");
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
