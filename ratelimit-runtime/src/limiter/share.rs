//! The share of one shard of a limiter.

use std::time::Duration;

use ratelimit_spec::shard_of;

use crate::{clock::whole_ms, settings::kept_idle, store::Config};

/// Which shard of a limiter a core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(super) index: u32,
    pub(super) of: u32,
}

/// Returns the configuration of two shards together.
pub(super) fn together(one: Config, other: Config) -> Config {
    let more = other.rule.burst().unwrap_or(0);
    let rule = one.rule.map_burst(|burst| burst.saturating_add(more));
    Config { rate: one.rate.saturating_add(other.rate), rule, ..one }
}

impl Share {
    /// Returns the configuration of this shard.
    pub(super) fn of(self, whole: Config) -> Config {
        let part = |number: u32| self.part(number);
        // A configured rate fits in the type of a file or an attribute.
        let rate = part(u32::try_from(whole.rate).unwrap_or(u32::MAX)).into();
        // The number of shards may decrease one day, so no shard is kept forever.
        let keep_alive_ms = match whole.keep_alive_ms {
            0 => whole_ms(kept_idle(Duration::from_millis(whole.per_ms))),
            ms => ms,
        };
        Config { rate, rule: whole.rule.map_burst(part), keep_alive_ms, ..whole }
    }

    /// Returns this shard's share of `permits`.
    pub(super) fn part(self, permits: u32) -> u32 {
        shard_of(permits, self.of, self.index)
    }

    /// Returns the name of this shard. No value makes another limiter's name the same, because a `~` in a value is
    /// escaped.
    pub(super) fn name(self, whole: &str) -> String {
        format!("{whole}:~shard-{}", self.index)
    }
}
