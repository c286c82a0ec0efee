//! What a caller was granted, so that it can give back exactly that.
//!
//! A store keeps no list of grants. A grant is found again by when it ends: that is when its entry in
//! a log expires, when its window is over, or when a bucket has drained it, first in first out.

use ratelimit_spec::Algorithm;

use super::{Config, State, Ticket};
use crate::store::Reply;

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
    /// What a granted reply stands for. `granted_after` is what later callers got in the same step:
    /// a bucket drains it later.
    #[must_use]
    pub fn of(reply: &Reply, permits: u32, granted_after: u64) -> Self {
        let Reply { now_ms, reset_after_ms, config, .. } = *reply;
        let later = match config.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => drain_ms(&config, granted_after),
            _ => 0,
        };
        Self { permits, ends_ms: (now_ms + reset_after_ms).saturating_sub(later), config }
    }

    /// What a reservation stands for.
    #[must_use]
    pub fn reserved(config: Config, permits: u32, ticket: Ticket) -> Self {
        let ends_ms = ticket.empty_at_ms + u64::from(ticket.ticks > 0);
        Self { permits, ends_ms, config }
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
    /// The permits a grant still holds, and whether it is the last one. `now` is when the backlog was
    /// written last if that is later; `same` is whether it was counted by the numbers of the grant.
    ///
    /// A slot that was reserved and has not begun is held only as long as it is the last: later ones
    /// stay where they are, so that two callers never share one.
    pub(super) fn held_by(&self, grant: &Grant, same: bool, now: u64) -> (u64, bool) {
        let left = grant.ends_ms.saturating_sub(now);
        let (rate, per) = (grant.config.rate.max(1), grant.config.per_ms.max(1));
        let is_last = same && left == self.ticks.div_ceil(self.rate);
        let ends_in = left.saturating_mul(rate);
        let has_begun = ends_in <= grant.config.capacity().saturating_mul(per);
        if left == 0 || (!is_last && (self.spaced || !has_begun)) {
            return (0, false);
        }
        // A grant ends within the millisecond before `ends_ms`, and at which tick is known where all
        // grants end at the same one.
        let rounded = match (same, per.is_multiple_of(rate)) {
            (true, true) => (rate - self.ticks % rate) % rate,
            (false, true) => 0,
            (_, false) => rate - 1,
        };
        let ticks = if is_last { self.ticks } else { ends_in.saturating_sub(rounded) };
        (u64::from(grant.permits).min(ticks / per).min(self.ticks / self.per), is_last)
    }
}

impl State {
    /// Gives back what this grant still holds, and nothing of any other. Returns how many permits
    /// that were.
    pub(crate) fn give_back(&mut self, config: &Config, grant: &Grant, now: u64) -> u64 {
        use Algorithm::{FixedWindow, LeakyBucket, SlidingWindow, TokenBucket};
        match (self, grant.config.algorithm, config.algorithm) {
            (Self::Log(log), SlidingWindow, SlidingWindow) => {
                let at = grant.ends_ms.saturating_sub(grant.config.per_ms);
                log.give_back(config.per_ms, grant.permits.into(), at, now)
            }
            (Self::Window(window), FixedWindow, FixedWindow) if window.fits(config) => {
                window.give_back(grant.permits.into(), grant.ends_ms, now)
            }
            (state, TokenBucket | LeakyBucket, TokenBucket | LeakyBucket) => {
                state.drain(config, grant, now)
            }
            _ => 0,
        }
    }

    /// [Gives back](Self::give_back) to a bucket.
    fn drain(&mut self, config: &Config, grant: &Grant, now: u64) -> u64 {
        if self.is_moot(config) {
            return 0;
        }
        let alike = |own: &Config| (own.rate, own.per_ms, own.warm_up_ms);
        let stale = self.is_foreign(config);
        let same = !stale && alike(config) == alike(&grant.config);
        let (back, left) = if config.warm_up_ms > 0 {
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
