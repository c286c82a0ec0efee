//! Grants of permits that are free, where counting is all that is needed: most calls.

use ratelimit_spec::Rule;

use super::{
    Config, State, Verdict,
    config::near_below,
    meter::{Left, Meter},
    token_bucket::Level,
};

impl State {
    /// Takes free permits if counting is all that is needed, and returns what the function makes of what is left.
    /// Otherwise takes nothing. Unless `exact`, more than that can be left of permits that are far from the limit.
    #[inline(always)]
    pub(crate) fn spend<T>(
        &mut self,
        config: &Config,
        permits: u64,
        now: u64,
        exact: bool,
        spent: impl FnOnce(&Self, Left) -> T,
    ) -> Option<T> {
        let left = match (&mut *self, config.rule) {
            (Self::Log(log), Rule::SlidingWindow) => {
                let enough = if exact { u64::MAX } else { near_below(config.rate) };
                log.spend(config.rate, config.per_ms, permits, now, enough)?
            }
            (Self::Bucket(bucket), Rule::TokenBucket { .. }) => {
                bucket.spend(config, permits, now)?
            }
            (Self::Window(window), Rule::FixedWindow { .. }) => {
                window.spend(config, permits, now)?
            }
            _ => return None,
        };
        Some(spent(self, left))
    }
}

/// Permits that were spent, with what is needed to derive the verdict for the few callers that read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    left: Left,
    /// When more permits are free, and when all are. Those of a bucket follow from what is left.
    more_at: u64,
    full_at: u64,
    config: Config,
    now: u64,
}

impl State {
    #[inline]
    pub(crate) fn spent(&self, left: Left, config: &Config, now: u64) -> Spent {
        let (more_at, full_at) = match self {
            Self::Log(log) => log.free_at(left.at, config.per_ms),
            Self::Window(window) => (window.end(), window.end()),
            Self::Bucket(_) | Self::Warm(_) => (now, now),
        };
        Spent { left, more_at, full_at, config: *config, now }
    }
}

impl Left {
    /// Returns the permits left.
    #[inline]
    pub(crate) fn permits(self, config: &Config) -> u64 {
        self.amount / self.unit(config)
    }

    /// Returns whether the call is near the limit. Most calls read no more of what is left, so ticks are not
    /// divided.
    #[inline]
    pub(crate) fn is_near_limit(self, config: &Config) -> bool {
        self.amount < near_below(config.saved()).saturating_mul(self.unit(config))
    }

    /// Returns how many permits calls can take that are not near the limit.
    pub(crate) fn far_from_limit(self, config: &Config) -> u64 {
        self.permits(config).saturating_sub(near_below(config.saved()))
    }

    /// One permit.
    #[inline]
    fn unit(self, config: &Config) -> u64 {
        if config.drains() { config.per_ms.max(1) } else { 1 }
    }
}

impl Spent {
    #[inline]
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Returns the permits left.
    #[inline]
    pub(crate) fn remaining(&self) -> u64 {
        self.left.permits(&self.config)
    }

    #[inline]
    pub(crate) fn is_near_limit(&self) -> bool {
        self.left.is_near_limit(&self.config)
    }

    /// Returns the verdict on the call, except for `retry_after`.
    pub(crate) fn verdict(&self) -> Verdict {
        let times = if self.config.drains() {
            Level::with(&self.config, self.left.amount).outlook(0)
        } else {
            let after = |at: u64| at.saturating_sub(self.now);
            let (reset_after, more_after) = (after(self.full_at), after(self.more_at));
            Verdict { reset_after, more_after, ..Verdict::default() }
        };
        Verdict { granted: true, remaining: self.remaining(), ..times }
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_spec::Mode;

    use super::*;
    use crate::algorithm::state::tests::noise;

    #[test]
    fn what_is_spent_leaves_the_same_state_and_verdict_as_what_is_acquired() {
        let rules = [
            Rule::SlidingWindow,
            Rule::TokenBucket { burst: 50 },
            Rule::FixedWindow { calendar: None },
            Rule::FixedWindow { calendar: Some("minute@UTC".parse().unwrap()) },
        ];
        for rule in rules {
            let config = Config::new(200, 100_000, Mode::Overall).rule(rule);
            let (mut state, mut now, mut spent, mut near) = (State::default(), 5_000, 0, 0);
            for random in noise(11).take(20_000) {
                now += random % 1_200;
                let permits = 1 + (random / 1_200) % 3;
                let mut other = state.clone();
                let kept = |state: &State, left| state.spent(left, &config, now);
                let kept = other.spend(&config, permits, now, true, kept);
                let verdict = state.acquire(&config, permits, now);
                let Some(kept) = kept else { continue };
                spent += 1;
                let derived = Verdict { retry_after: verdict.retry_after, ..kept.verdict() };
                assert_eq!(derived, verdict, "{config:?}");
                let is_near_limit = config.is_near_limit(verdict.remaining);
                assert_eq!(kept.is_near_limit(), is_near_limit, "{config:?}: {verdict:?}");
                near += u32::from(is_near_limit);
                assert_eq!(format!("{other:?}"), format!("{state:?}"), "{config:?}");
            }
            assert!(spent > 1_000 && near > 10, "{config:?}: {spent}, {near}");
        }
    }

    #[test]
    fn entries_that_expire_late_take_no_permits() {
        let config = Config::new(70, 20_000, Mode::Overall);
        let (mut exact, mut rough, mut now) = (State::default(), State::default(), 5_000);
        let (mut late, mut near) = (0, [0; 2]);
        for random in noise(5).take(20_000) {
            let quiet = now / 200_000 % 2 == 0;
            now += random % if quiet { 3_000 } else { 800 };
            let permits = 1 + (random / 3_000) % 2;
            let verdict = exact.acquire(&config, permits, now);
            let spent = rough.spend(&config, permits, now, false, |_, left| {
                let left = (left.permits(&config), left.is_near_limit(&config));
                assert!(left.0 <= verdict.remaining, "{left:?}, {verdict:?}");
                late += u32::from(left.0 < verdict.remaining);
                left.1
            });
            assert_eq!(spent.is_some(), verdict.granted, "{verdict:?}");
            match spent {
                Some(is_near) => {
                    assert_eq!(is_near, config.is_near_limit(verdict.remaining), "{verdict:?}");
                    near[usize::from(is_near)] += 1;
                }
                None => assert_eq!(rough.acquire(&config, permits, now), verdict),
            }
            assert_eq!(rough.peek(&config, 1, now), exact.peek(&config, 1, now));
        }
        assert!(late > 1_000 && near.iter().all(|&calls| calls > 100), "{late}, {near:?}");
    }
}
