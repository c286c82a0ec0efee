//! Permits that are taken in advance: a bucket knows exactly when it has them.

use ratelimit_spec::Algorithm;

use super::{Config, State, Verdict, meter::Meter};

/// What a reservation left behind. As long as it is still there nobody reserved after it, and the
/// slot can be given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// When the bucket is empty, in milliseconds since the Unix epoch.
    pub(crate) empty_at_ms: u64,
    /// The ticks that are left in it then.
    pub(crate) ticks: u64,
}

/// What a rule says to a request that may be granted later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Booking {
    /// As of after the permits were taken, if they were.
    pub(crate) verdict: Verdict,
    /// The milliseconds after which it may go; 0 when nothing was taken, too.
    pub(crate) wait: u64,
    pub(crate) ticket: Ticket,
}

impl Config {
    /// Whether permits can be reserved: who comes later then comes after.
    pub(crate) fn reserves(&self) -> bool {
        matches!(self.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket)
    }
}

impl State {
    /// Takes permits that are free within so many milliseconds; what other rules count is refused.
    pub(crate) fn reserve(
        &mut self,
        config: &Config,
        permits: u64,
        within: u64,
        now: u64,
    ) -> Booking {
        if self.is_moot(config) || !config.reserves() {
            return Booking::default();
        }
        let mut level = self.level(config, now);
        let wait = level.reserve(permits, within);
        let granted = wait.is_some();
        let (remaining, ahead) = (level.free(), level.ahead());
        let verdict = Verdict { granted, remaining, ahead, ..level.outlook(permits) };
        let bucket = level.at(now);
        if self.is_foreign(config) || granted || ahead > 0 {
            *self = Self::Bucket(bucket);
        }
        let ticket = if granted { bucket.ticket() } else { Ticket::default() };
        Booking { verdict, wait: wait.unwrap_or(0), ticket }
    }

    /// Gives back what was reserved, if nobody reserved or took anything after it.
    pub(crate) fn give_up(
        &mut self,
        config: &Config,
        permits: u64,
        ticket: Ticket,
        now: u64,
    ) -> bool {
        let last = matches!(self, Self::Bucket(bucket) if bucket.ticket() == ticket);
        last && self.release(config, permits, now) > 0
    }
}
