//! Replies of the embedded store.

use ratelimit_spec::Mode;

use crate::{
    algorithm::{Spent, Verdict},
    store::{Config, Outcome, Reply},
};

impl Reply {
    /// Builds the reply from the verdict of the rule, if it was consulted.
    pub(super) fn decided(
        permits: u32,
        config: Config,
        now_ms: u64,
        rule: impl FnOnce(u64) -> Verdict,
    ) -> Self {
        let permits = u64::from(permits);
        let (outcome, verdict) = if config.mode == Mode::PerClient {
            (Outcome::PerClient, Verdict::default())
        } else {
            let verdict = rule(permits);
            let outcome = match verdict.granted {
                true => Outcome::Granted,
                false if permits > config.capacity() => Outcome::ExceedsCapacity,
                false => Outcome::Refused,
            };
            (outcome, verdict)
        };
        Self {
            outcome,
            remaining: verdict.remaining,
            retry_after_ms: verdict.retry_after,
            reset_after_ms: verdict.reset_after,
            more_after_ms: verdict.more_after,
            now_ms,
            ahead_ms: verdict.ahead,
            moved: verdict.moved,
            config,
            reconciled: None,
            replaced: None,
            announcer: None,
            violated: 0,
        }
    }

    /// Builds the reply to a call that spent permits, without the time until the same request can be granted again.
    pub(crate) fn of_spent(spent: &Spent) -> Self {
        Self::decided(0, *spent.config(), spent.now(), |_| spent.verdict())
    }

    pub(super) fn unknown(now_ms: u64) -> Self {
        let silent =
            Self::decided(0, Config::new(0, 0, Mode::Overall), now_ms, |_| Verdict::default());
        Self { outcome: Outcome::Unknown, ..silent }
    }
}
