//! What a caller was granted, so that it can give back exactly that.
//!
//! A store keeps no list of grants. A grant is found again by when it ends: that is when its entry in
//! a log expires, when its window is over, or when a bucket has drained it, first in first out.

use super::{Config, Ticket, moves::Moves};

/// Permits that one caller got, and when they are free again by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub(crate) permits: u32,
    /// By the clock of the store, in milliseconds since the Unix epoch; rounded up.
    pub(crate) ends_ms: u64,
    /// How far the grants of the bucket had [moved](super::moves) then.
    pub(crate) moved: u64,
    /// The numbers by which they were granted.
    pub(crate) config: Config,
}

impl Grant {
    /// Permits that end then, or earlier if the same step granted others after them: a bucket drains those
    /// later.
    pub(crate) fn new(config: Config, permits: u32, ends_ms: u64, granted_after: u64) -> Self {
        let later = if config.drains() { drain_ms(&config, granted_after) } else { 0 };
        Self { permits, ends_ms: ends_ms.saturating_sub(later), moved: 0, config }
    }

    /// The same when the grants of the bucket had moved so far.
    pub(crate) fn moved(self, moved: u64) -> Self {
        Self { moved, ..self }
    }

    /// Returns the grant of a reservation.
    #[must_use]
    pub fn reserved(config: Config, permits: u32, ticket: Ticket) -> Self {
        let ends_ms = ticket.empty_at_ms.saturating_add(u64::from(ticket.ticks > 0));
        Self { permits, ends_ms, moved: 0, config }
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
pub(super) struct Backlog<'a> {
    pub(super) ticks: u64,
    pub(super) rate: u64,
    pub(super) per: u64,
    /// Whether permits are handed out one after the other.
    pub(super) spaced: bool,
    pub(super) moves: Option<&'a Moves>,
}

/// The ticks of a backlog that a grant still holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) ticks: u64,
    /// The ticks that drain before them.
    pub(super) before: u64,
    /// Whether none were granted after them.
    pub(super) is_last: bool,
}

impl Backlog<'_> {
    /// What a grant by the same numbers still holds. `now` is when the backlog was written last if that
    /// is later.
    ///
    /// A slot that was reserved and has not begun is held only as long as it is the last: later ones
    /// stay where they are, so that two callers never share one. Slots are held whole or not at all.
    pub(super) fn held_by(&self, grant: &Grant, now: u64) -> Held {
        let Self { ticks, rate, per, spaced, moves } = *self;
        let ends_in = grant.ends_ms.saturating_sub(now).saturating_mul(rate);
        let none = Moves::default();
        let (moved, latest) = moves.unwrap_or(&none).of_grant(ends_in, grant.moved, now, rate);
        let ends_in = ends_in.saturating_sub(moved);
        let is_last = (ticks..ticks.saturating_add(rate)).contains(&ends_in);
        let has_begun = ends_in <= grant.config.capacity().saturating_mul(per);
        if ends_in == 0 || (!is_last && (spaced || !has_begun)) {
            return Held::default();
        }
        // A grant ends within the millisecond before it says so. At which tick is known of the last one,
        // if that is the only one to end in it, and where all grants end at the same one.
        let is_only = per >= rate;
        let end = match is_last && is_only {
            true => ticks,
            false if per.is_multiple_of(rate) => {
                let behind = (ends_in % rate + rate - ticks % rate) % rate;
                ends_in.saturating_sub(behind).min(latest)
            }
            false => ends_in.saturating_sub(rate - 1).min(latest),
        };
        let permits = u64::from(grant.permits);
        let held = match spaced {
            true => permits.min(end / per).min(ticks / per).saturating_mul(per),
            false => permits.saturating_mul(per).min(end).min(ticks),
        };
        let is_last = is_last && (is_only || spaced || !has_begun);
        Held { ticks: held, before: end - held, is_last }
    }
}
