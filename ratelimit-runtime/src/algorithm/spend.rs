//! Grants of permits that are free, where counting is all that is needed: most calls.

use ratelimit_spec::Rule;

use super::{
    Config, State, Verdict,
    meter::{Left, Meter},
    token_bucket::Level,
};

impl State {
    /// Takes free permits if counting is all that is needed, and returns what the function makes of what is left.
    /// Otherwise takes nothing.
    #[inline]
    pub(crate) fn spend<T>(
        &mut self,
        config: &Config,
        permits: u64,
        now: u64,
        spent: impl FnOnce(&Self, Left) -> T,
    ) -> Option<T> {
        let left = match (&mut *self, config.rule) {
            (Self::Log(log), Rule::SlidingWindow) => {
                log.spend(config.rate, config.per_ms, permits, now)?
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

/// The times after permits were spent, from which the verdict is derived for the few callers that need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    more_at: u64,
    full_at: u64,
    now: u64,
}

impl State {
    /// Returns the times after permits were spent. Those of a bucket follow from what is left.
    #[inline]
    pub(crate) fn times(&self, left: Left, config: &Config, now: u64) -> Times {
        let (more_at, full_at) = match self {
            Self::Log(log) => log.free_at(left.entry, config.per_ms),
            Self::Window(window) => (window.end(), window.end()),
            Self::Bucket(_) | Self::Warm(_) => (now, now),
        };
        Times { more_at, full_at, now }
    }
}

impl Left {
    /// Returns the permits left.
    #[inline]
    pub(crate) fn permits(self, config: &Config) -> u64 {
        let per = if config.drains() { config.per_ms.max(1) } else { 1 };
        self.amount / per
    }
}

impl Times {
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Returns the verdict on the call that left this, except for `retry_after`.
    pub(crate) fn verdict(&self, left: Left, config: &Config) -> Verdict {
        let times = if config.drains() {
            Level::with(config, left.amount).outlook(0)
        } else {
            let after = |at: u64| at.saturating_sub(self.now);
            let (reset_after, more_after) = (after(self.full_at), after(self.more_at));
            Verdict { reset_after, more_after, ..Verdict::default() }
        };
        Verdict { granted: true, remaining: left.permits(config), ..times }
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
            let (mut state, mut now, mut spent) = (State::default(), 5_000, 0);
            for random in noise(11).take(20_000) {
                now += random % 1_200;
                let permits = 1 + (random / 1_200) % 3;
                let mut other = state.clone();
                let left = other.spend(&config, permits, now, |_, left| left);
                let verdict = state.acquire(&config, permits, now);
                let Some(left) = left else { continue };
                spent += 1;
                let told = Verdict {
                    retry_after: verdict.retry_after,
                    ..other.times(left, &config, now).verdict(left, &config)
                };
                assert_eq!(told, verdict, "{config:?}");
                assert_eq!(format!("{other:?}"), format!("{state:?}"), "{config:?}");
            }
            assert!(spent > 1_000, "{config:?}: {spent}");
        }
    }
}
