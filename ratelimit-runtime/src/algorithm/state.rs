//! The usage of one limiter, for every algorithm.

use ratelimit_spec::Rule;

use super::{
    Config, Verdict,
    fixed_window::{Count, Window},
    meter::Meter,
    sliding_window::Log,
    ticket::Promised,
    token_bucket::{Bucket, Level},
    warm_up::{Heat, Warm},
};

/// The state of one limiter, with the values that are needed to read it under another
/// configuration.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Log(Log),
    Bucket(Bucket),
    /// On the heap, because it is the largest, and few limiters warm up.
    Warm(Box<Warm>),
    Window(Window),
}

impl Default for State {
    fn default() -> Self {
        Self::Log(Log::default())
    }
}

impl State {
    /// Takes permits, or returns when they will be free.
    pub(crate) fn acquire(&mut self, config: &Config, permits: u64, now: u64) -> Verdict {
        match self {
            Self::Log(log) if config.rule == Rule::SlidingWindow => {
                log.acquire(config.rate, config.per_ms, permits, now)
            }
            _ => self.acquire_by_another(config, permits, now),
        }
    }

    /// A separate function, so that a sliding window pays nothing for the others.
    #[inline(never)]
    fn acquire_by_another(&mut self, config: &Config, permits: u64, now: u64) -> Verdict {
        let mut open = self.open(config, std::iter::once(permits), now);
        let verdict = open.acquire(permits);
        open.close(now);
        verdict
    }

    /// Returns the verdict of [`acquire`](Self::acquire) without taking anything.
    pub(crate) fn peek(&self, config: &Config, permits: u64, now: u64) -> Verdict {
        self.peek_asking(config, permits, permits, now)
    }

    /// The same for a key that a penalty blocks: its calls take nothing, as if they requested more than the capacity.
    pub(crate) fn peek_blocked(&self, config: &Config, permits: u64, now: u64) -> Verdict {
        self.peek_asking(config, permits, u64::MAX, now)
    }

    fn peek_asking(&self, config: &Config, permits: u64, asked: u64, now: u64) -> Verdict {
        if self.is_moot(config) {
            return Verdict::default();
        }
        match config.rule {
            Rule::WarmingBucket { .. } => self.heat(config, now).look(permits),
            Rule::TokenBucket { .. } | Rule::LeakyBucket => self.level(config, now).look(permits),
            Rule::FixedWindow { .. } => self.count(config, now).look(permits),
            Rule::SlidingWindow => self.log(config, now).peek(config, permits, asked, now),
        }
    }

    /// Releases the oldest permits. Returns how many were released.
    pub(crate) fn release(&mut self, config: &Config, permits: u64, now: u64) -> u64 {
        if self.is_moot(config) {
            return 0;
        }
        let (back, left) = match config.rule {
            Rule::WarmingBucket { .. } => {
                let mut heat = self.heat(config, now);
                (heat.give_back(permits), Self::Warm(Box::new(heat.warm(now))))
            }
            Rule::TokenBucket { .. } | Rule::LeakyBucket => {
                let mut level = self.level(config, now);
                (level.give_back(permits, now), Self::Bucket(level.at(now)))
            }
            Rule::FixedWindow { .. } => {
                let mut count = self.count(config, now);
                (count.give_back(permits), Self::Window(count.window()))
            }
            Rule::SlidingWindow => {
                return self.as_log(config, now).release(config.rate, config.per_ms, permits, now);
            }
        };
        if back > 0 || self.is_foreign(config) {
            *self = left;
        }
        back
    }

    /// Drops permits that a configuration which was just written no longer counts, so that later
    /// configurations do not count them again.
    pub(crate) fn trim(&mut self, config: &Config, now: u64) {
        if let Self::Log(log) = self
            && config.rule == Rule::SlidingWindow
        {
            log.trim(config.rate, config.per_ms, now);
        }
    }

    /// Pays the debt with what became free under this configuration, before another one replaces it. Windows of a
    /// calendar are left out, as in Redis, where not all calls know them.
    pub(crate) fn pay(&mut self, config: &Config, now: u64) {
        if config.rate == 0 {
            return;
        }
        match (self, config.rule) {
            (Self::Log(log), Rule::SlidingWindow) if log.debt() > 0 => {
                log.expire(config.rate, config.per_ms, now);
            }
            (Self::Window(window), Rule::FixedWindow { calendar: None })
                if window.debt() > 0 && window.fits(config) =>
            {
                *window = window.at(config, now).window();
            }
            _ => {}
        }
    }

    /// Keeps what was counted for as long as this configuration counts it.
    pub(crate) fn keep_for(&mut self, config: &Config) {
        if let Self::Log(log) = self {
            log.count_within(config.per_ms);
        }
    }

    /// Returns the permits that were taken since an earlier state and still count, including those that are owed.
    pub(crate) fn used_since(&self, before: &Self, config: &Config, now: u64) -> u64 {
        let warms_up = matches!(self, Self::Warm(_));
        let used = |state: &Self| match state {
            Self::Warm(warm) if warms_up => warm.taken(now),
            _ => state.carried(config, now).permits,
        };
        used(self).saturating_sub(used(before))
    }

    /// Returns whether the state is equivalent to a new one.
    pub(crate) fn is_idle(&self, now: u64) -> bool {
        match self {
            Self::Log(log) => log.is_idle(now),
            Self::Bucket(bucket) => bucket.is_idle(now),
            Self::Warm(warm) => warm.is_idle(now),
            Self::Window(window) => window.is_idle(now),
        }
    }

    /// Returns whether nothing needs counting, because no call is admitted. A log can still report
    /// when it will be empty; other states are kept for the next configuration.
    pub(super) fn is_moot(&self, config: &Config) -> bool {
        let logged = matches!(self, Self::Log(_)) && config.rule == Rule::SlidingWindow;
        config.rate == 0 && !logged
    }

    /// Returns whether the state was counted by another algorithm, or under a configuration that changes its meaning.
    pub(super) fn is_foreign(&self, config: &Config) -> bool {
        match (self, config.rule) {
            (Self::Log(_), Rule::SlidingWindow) => false,
            (Self::Bucket(bucket), Rule::TokenBucket { .. } | Rule::LeakyBucket) => {
                !bucket.fits(config)
            }
            (Self::Warm(warm), Rule::WarmingBucket { .. }) => !warm.fits(config),
            (Self::Window(window), Rule::FixedWindow { .. }) => !window.fits(config),
            (
                Self::Log(_) | Self::Bucket(_) | Self::Warm(_) | Self::Window(_),
                Rule::SlidingWindow
                | Rule::TokenBucket { .. }
                | Rule::WarmingBucket { .. }
                | Rule::FixedWindow { .. }
                | Rule::LeakyBucket,
            ) => true,
        }
    }

    pub(super) fn level(&self, config: &Config, now: u64) -> Level {
        match self {
            Self::Bucket(bucket) if bucket.fits(config) => bucket.at(config, now),
            Self::Bucket(bucket) => Level::new(config, bucket.used(now)).after(bucket, now),
            _ => Level::new(config, self.carried(config, now)),
        }
    }

    pub(super) fn heat(&self, config: &Config, now: u64) -> Heat {
        match self {
            Self::Warm(warm) if warm.fits(config) => warm.at(now),
            _ => Heat::new(config, self.carried(config, now)),
        }
    }

    pub(super) fn count(&self, config: &Config, now: u64) -> Count {
        match self {
            Self::Window(window) if window.fits(config) => window.at(config, now),
            _ => Count::new(config, self.carried(config, now).permits, now),
        }
    }

    fn log(&self, config: &Config, now: u64) -> Log {
        match self {
            Self::Log(log) => log.clone(),
            _ => {
                let used = self.carried(config, now).permits;
                Log::taken(used, config.rate, config.per_ms, now)
            }
        }
    }

    /// Returns the log, converted from any other state.
    pub(super) fn as_log(&mut self, config: &Config, now: u64) -> &mut Log {
        if !matches!(self, Self::Log(_)) {
            *self = Self::Log(self.log(config, now));
        }
        match self {
            Self::Log(log) => log,
            _ => unreachable!("it was made one"),
        }
    }

    /// Returns the permits in use under another configuration or algorithm; all of them count as
    /// taken now.
    fn carried(&self, config: &Config, now: u64) -> Promised {
        let taken = |permits| Promised { permits, ..Promised::default() };
        match self {
            Self::Log(log) => taken(log.used(config.per_ms, now)),
            Self::Bucket(bucket) => bucket.used(now),
            Self::Warm(warm) => warm.used(now),
            Self::Window(window) => taken(window.used(now)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use ratelimit_spec::Mode;

    use super::*;

    const RULES: [Rule; 5] = [
        Rule::SlidingWindow,
        Rule::TokenBucket { burst: 4 },
        Rule::TokenBucket { burst: 20 },
        Rule::FixedWindow { calendar: None },
        Rule::LeakyBucket,
    ];

    fn ten_a_second(rule: Rule) -> Config {
        Config::new(10, 1000, Mode::Overall).rule(rule)
    }

    /// A reproducible pseudorandom sequence.
    pub(crate) fn noise(seed: u64) -> impl Iterator<Item = u64> {
        let next = |state: &u64| {
            let x = state ^ (state << 13);
            let x = x ^ (x >> 7);
            Some(x ^ (x << 17))
        };
        std::iter::successors(Some(seed), next).map(|x| x >> 20)
    }

    #[test]
    fn a_refusal_tells_the_exact_wait() {
        for rule in RULES {
            let (config, mut state, mut now) = (ten_a_second(rule), State::default(), 5_000);
            let mut refused = 0;
            for random in noise(7).take(5_000) {
                now += random % 150;
                let permits = 1 + (random / 150) % (config.capacity() + 1);
                let v = state.acquire(&config, permits, now);
                if v.granted || permits > config.capacity() {
                    assert!(v.granted || v.retry_after == 0);
                    continue;
                }
                refused += 1;
                let at = |later: u64| state.clone().acquire(&config, permits, now + later).granted;
                assert!(
                    at(v.retry_after) && !at(v.retry_after - 1),
                    "{config:?}: {permits}, {v:?}"
                );
            }
            assert!(refused > 1000, "{config:?} refused {refused}");
        }
    }

    #[test]
    fn a_request_above_the_capacity_takes_nothing() {
        for rule in RULES {
            let (config, mut state) = (ten_a_second(rule), State::default());
            for _ in 0..50 {
                assert!(!state.acquire(&config, config.capacity() + 1, 0).granted);
            }
            assert!(state.acquire(&config, config.capacity(), 0).granted, "{config:?}");
        }
    }

    #[test]
    fn another_rule_counts_what_is_used_as_taken_now() {
        for (from, to) in RULES.iter().flat_map(|from| RULES.map(|to| (*from, to))) {
            let (before, after) = (ten_a_second(from), ten_a_second(to));
            if before == after {
                continue;
            }
            let mut state = State::default();
            assert!(state.acquire(&before, 3, 5_000).granted);
            let left = if after.is_spaced() { 0 } else { after.capacity() - 3 };
            assert_eq!(state.peek(&after, 1, 5_000).remaining, left, "{from:?} to {to:?}");
            // No more can be in use than there is.
            assert_eq!(state.release(&after, 99, 5_000), 3, "{from:?} to {to:?}");
            assert_eq!(state.peek(&after, 1, 5_000).remaining, after.capacity());
        }
    }

    #[test]
    fn what_was_taken_since_is_the_same_after_a_change_of_the_rule() {
        let warm_up = std::time::Duration::from_secs(1);
        let before = ten_a_second(Rule::WarmingBucket { warm_up });
        let mut known = State::default();
        assert!(known.acquire(&before, 1, 5_000).granted);
        let mut charged = known.clone();
        charged.charge(&before, 1, 10, 5_000);
        assert_eq!(charged.used_since(&State::default(), &before, 5_000), 2);
        assert_eq!(charged.used_since(&known, &before, 5_000), 1);
        for rule in RULES {
            let (after, mut state) = (ten_a_second(rule), known.clone());
            state.charge(&after, 1, 10, 5_000);
            assert_eq!(state.used_since(&known, &after, 5_000), 1, "{rule:?}");
        }
    }

    #[test]
    fn what_was_taken_counts_to_the_last_permit_by_new_numbers() {
        let hundred = ten_a_second(Rule::TokenBucket { burst: 100 });
        for (rule, wait) in [
            (Rule::SlidingWindow, 10_000),
            // These windows began at a full second.
            (Rule::FixedWindow { calendar: None }, 10_000),
            (Rule::TokenBucket { burst: 20 }, 8_100),
            (Rule::LeakyBucket, 10_000),
        ] {
            let (config, mut state) = (ten_a_second(rule), State::default());
            assert!(state.acquire(&hundred, 100, 5_000).granted);
            for _ in 0..99 {
                state.acquire(&config, 1, 5_000);
            }
            let mut now = 5_000;
            while !state.acquire(&config, 1, now).granted {
                now += state.peek(&config, 1, now).retry_after;
            }
            assert_eq!(now - 5_000, wait, "{config:?}");
        }
    }

    /// Returns when callers that wait for one permit each may proceed.
    fn slots(state: &mut State, config: &Config, callers: usize, now: u64) -> Vec<u64> {
        let bookings = state.reserve(config, &vec![1; callers], u64::MAX, now);
        bookings.iter().map(|booking| now + booking.wait).collect()
    }

    #[test]
    fn slots_by_new_numbers_come_after_those_that_were_promised() {
        for rule in [Rule::LeakyBucket, Rule::TokenBucket { burst: 1 }] {
            for (rate, most) in [(11, 11), (5, 10), (30, 30)] {
                let (before, mut state) = (ten_a_second(rule), State::default());
                let after = Config { rate, ..before };
                let mut times = slots(&mut state, &before, 50, 5_000);
                times.extend(slots(&mut state, &after, 50, 5_000));
                let in_a_second = |from: &u64| {
                    times.iter().filter(|at| (*from..from + 1000).contains(*at)).count() as u64
                };
                let found = times.iter().map(in_a_second).max();
                assert!(found <= Some(most), "{found:?} by {rate} a second, {before:?}");
                assert!(times.is_sorted());
            }
        }
    }

    #[test]
    fn a_rate_of_0_admits_nobody_and_forgets_nothing() {
        for rule in RULES {
            let (config, mut state) = (ten_a_second(rule), State::default());
            state.acquire(&config, 2, 5_000);
            let nobody = Config { rate: 0, ..config };
            let v = state.acquire(&nobody, 1, 5_000);
            assert_eq!((v.granted, v.remaining, v.retry_after), (false, 0, 0));
            assert_eq!(state.release(&config, 9, 5_000), 2, "{config:?}");
        }
    }
}
