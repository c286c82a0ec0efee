//! What a caller was granted, so that it can give back exactly that.
//!
//! A store keeps no list of grants. A grant is found again by when it ends: that is when its entry in
//! a log expires, when its window is over, or when a bucket has drained it, first in first out.

use super::{Config, Ticket};

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
    /// Permits that end then, or earlier if the same step granted others after them: a bucket drains those
    /// later.
    pub(crate) fn new(config: Config, permits: u32, ends_ms: u64, granted_after: u64) -> Self {
        let later = if config.drains() { drain_ms(&config, granted_after) } else { 0 };
        Self { permits, ends_ms: ends_ms.saturating_sub(later), config }
    }

    /// What a reservation stands for.
    #[must_use]
    pub fn reserved(config: Config, permits: u32, ticket: Ticket) -> Self {
        let ends_ms = ticket.empty_at_ms.saturating_add(u64::from(ticket.ticks > 0));
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

/// The milliseconds in which a bucket drains `permits`, rounded up.
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
            false => permits.min(ticks / per).min(self.ticks / self.per).saturating_mul(self.per),
        };
        (held, is_last)
    }
}
