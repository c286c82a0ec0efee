//! Identifies what a caller was granted, so that exactly that can be released.
//!
//! A store keeps no list of grants. A grant is identified by its end: the time at which its log
//! entry expires, its window ends, or its bucket has drained it, first in, first out.

use super::{Config, Ticket, moves::Moves};

/// The `before_ms` of permits that were free: later than any reservation begins.
const AT_ONCE: u64 = u64::MAX;

/// Permits that one caller got, and when they are free again by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub(crate) permits: u32,
    /// By the store's clock, in milliseconds since the Unix epoch, rounded up.
    pub(crate) ends_ms: u64,
    /// By how many ticks the bucket's grants had [moved](super::moves) at that time.
    pub(crate) moved: u64,
    /// When the last reservation made before a reservation begins, at the latest; [`AT_ONCE`] for
    /// permits that were free.
    pub(crate) before_ms: u64,
    /// The configuration under which the permits were granted.
    pub(crate) config: Config,
}

impl Grant {
    /// Creates a grant of permits that end at `ends_ms`, or earlier if the same step granted others
    /// after them: a bucket drains those later.
    pub(crate) fn new(config: Config, permits: u32, ends_ms: u64, granted_after: u64) -> Self {
        let later = if config.drains() { drain_ms(&config, granted_after) } else { 0 };
        let ends_ms = ends_ms.saturating_sub(later);
        Self { permits, ends_ms, moved: 0, before_ms: AT_ONCE, config }
    }

    /// Returns the grant with the ticks by which the bucket's grants had moved at that time.
    pub(crate) fn moved(self, moved: u64) -> Self {
        Self { moved, ..self }
    }

    /// Returns the grant of a reservation that begins after this many milliseconds.
    #[must_use]
    pub fn reserved(config: Config, permits: u32, ticket: Ticket, wait_ms: u64) -> Self {
        let ends_ms = ticket.empty_at_ms.saturating_add(u64::from(ticket.ticks > 0));
        let before_ms = if wait_ms > 0 { ticket.before_ms } else { AT_ONCE };
        Self { permits, ends_ms, moved: 0, before_ms, config }
    }

    /// The milliseconds until the last reservation made before it begins.
    pub(super) fn leads(&self, now: u64) -> u64 {
        self.before_ms.saturating_sub(now)
    }

    /// Returns the first part of a bucket's grant, without its last `permits`.
    pub(crate) fn before(self, permits: u64) -> Self {
        let ends_ms = self.ends_ms.saturating_sub(drain_ms(&self.config, permits));
        Self { ends_ms, ..self }
    }
}

/// The milliseconds in which a bucket drains `permits`, rounded up.
fn drain_ms(config: &Config, permits: u64) -> u64 {
    permits.saturating_mul(config.per_ms).div_ceil(config.rate.max(1))
}

/// A bucket's backlog as of one instant, in ticks: `rate` ticks drain per millisecond, and a permit
/// is `per` ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog<'a> {
    pub(super) ticks: u64,
    pub(super) rate: u64,
    pub(super) per: u64,
    /// Whether permits are spaced, one after the other.
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
    /// Returns what a grant under the same configuration still holds. `now` is the time of the last
    /// write of the backlog, if that is later.
    ///
    /// A reservation that has not begun is held only as long as it is the last: later ones keep
    /// their times, so that two callers never share one. Reservations are held whole or not at all.
    pub(super) fn held_by(&self, grant: &Grant, now: u64) -> Held {
        let Self { ticks, rate, per, spaced, moves } = *self;
        let ends_in = grant.ends_ms.saturating_sub(now).saturating_mul(rate);
        let none = Moves::default();
        let (moved, latest) = moves.unwrap_or(&none).of_grant(ends_in, grant.moved, now, rate);
        let ends_in = ends_in.saturating_sub(moved);
        let is_last = (ticks..ticks.saturating_add(rate)).contains(&ends_in);
        let has_begun =
            grant.before_ms == AT_ONCE || ends_in <= grant.config.capacity().saturating_mul(per);
        if ends_in == 0 || (!is_last && (spaced || !has_begun)) {
            return Held::default();
        }
        // A grant ends within the millisecond before its `ends_ms`. The exact tick is known for the last
        // grant, if no other ends in that millisecond, and if all grants end at the same tick of one.
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
