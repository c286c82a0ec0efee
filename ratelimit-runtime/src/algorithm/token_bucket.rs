//! `rate` permits per `per` in the long run: as a token bucket up to `burst` of them at once, as a
//! leaky bucket one after the other.
//!
//! What was taken and has not come back is a backlog that drains steadily (GCRA). It is counted in
//! ticks, of which `rate` drain in a millisecond and a permit is `per`; so every number is whole.
//! [Reservations](super::reserve) and [charges](super::charge) add to it beyond what the bucket holds.

use super::{
    Config, Grant, Ticket,
    grant::Backlog,
    meter::Meter,
    ticket::{MOST_AHEAD, Promised},
};

/// When the backlog is gone, and the numbers it was counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The millisecond, and the ticks that are left then.
    empty_at: u64,
    ticks: u64,
    rate: u64,
    per: u64,
    /// When it was last written.
    at: u64,
    /// When the last reservation begins, if that was still to come.
    last: u64,
}

/// A bucket as of one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    backlog: u64,
    rate: u64,
    per: u64,
    capacity: u64,
    /// Whether permits are handed out one after the other.
    spaced: bool,
    ahead: u64,
    /// The milliseconds until the last reservation begins.
    lead: u64,
}

impl Bucket {
    /// Whether it is counted by these numbers.
    pub(super) fn fits(&self, config: &Config) -> bool {
        (self.rate, self.per) == (config.rate, config.per_ms)
    }

    /// The permits that are not back, by the numbers it was counted by; a part counts as one.
    pub(super) fn used(&self, now: u64) -> Promised {
        let (backlog, lead, per) = (self.backlog(now), self.lead(now), self.per.max(1));
        let last = backlog.saturating_sub(lead.saturating_mul(self.rate)).div_ceil(per);
        Promised { permits: backlog.div_ceil(per), lead, last }
    }

    /// How long until it is empty.
    pub(super) fn lasts_ms(&self, now: u64) -> u64 {
        self.backlog(now).div_ceil(self.rate.max(1))
    }

    pub(super) fn is_idle(&self, now: u64) -> bool {
        self.backlog(now) == 0
    }

    /// No time has passed for a clock that stepped back.
    fn backlog(&self, now: u64) -> u64 {
        let now = now.max(self.at);
        if self.empty_at >= now {
            (self.empty_at - now).saturating_mul(self.rate).saturating_add(self.ticks)
        } else {
            self.ticks.saturating_sub((now - self.empty_at).saturating_mul(self.rate))
        }
    }

    /// The bucket by these numbers, which it [fits](Self::fits).
    pub(super) fn at(&self, config: &Config, now: u64) -> Level {
        let (backlog, lead, ahead) =
            (self.backlog(now), self.lead(now), self.at.saturating_sub(now));
        Level { backlog, lead, ahead, ..Level::empty(config) }
    }

    /// Takes permits that are free, and says how many are left; nothing where the clock stepped back,
    /// somebody reserved, or other numbers count.
    pub(super) fn spend(&mut self, config: &Config, permits: u64, now: u64) -> Option<u64> {
        if !self.fits(config) || now < self.at || self.last > 0 {
            return None;
        }
        let mut level = self.at(config, now);
        let left = level.free().checked_sub(permits)?;
        level.take(permits);
        *self = level.at(now);
        Some(left)
    }

    fn lead(&self, now: u64) -> u64 {
        self.last.saturating_sub(now.max(self.at))
    }

    /// What tells it from any other state of the same limiter.
    pub(super) fn ticket(&self) -> Ticket {
        Ticket { empty_at_ms: self.empty_at, ticks: self.ticks, stored: 0 }
    }
}

impl Level {
    fn empty(config: &Config) -> Self {
        Self {
            backlog: 0,
            rate: config.rate.max(1),
            per: config.per_ms,
            capacity: config.capacity(),
            spaced: config.is_spaced(),
            ahead: 0,
            lead: 0,
        }
    }

    /// A bucket of which so many permits were just taken, also beyond what it holds: they were promised.
    /// Whoever reserves by these numbers comes after all of them.
    pub(super) fn new(config: &Config, used: Promised) -> Self {
        let mut level = Self { lead: used.lead, ..Self::empty(config) };
        level.backlog = used
            .ticks(level.rate, level.per, level.spaced)
            .min(level.most().saturating_add(MOST_AHEAD));
        level
    }

    /// What is left to remember: nothing of an empty one, not even when that was.
    pub(super) fn at(&self, now: u64) -> Bucket {
        let Self { backlog, rate, per, .. } = *self;
        let (empty_at, at) =
            if backlog > 0 { (now.saturating_add(backlog / rate), now) } else { (0, 0) };
        let last = if backlog > 0 && self.lead > 0 { now.saturating_add(self.lead) } else { 0 };
        Bucket { empty_at, ticks: backlog % rate, rate, per, at, last }
    }

    /// Gives permits back, and returns how many there were to give back: none of a leaky bucket whose
    /// slots are reserved, since two callers would get one.
    pub(super) fn give_back(&mut self, permits: u64) -> u64 {
        if self.spaced && self.lead > 0 {
            return 0;
        }
        let used = self.backlog.div_ceil(self.per.max(1));
        self.backlog = self.backlog.saturating_sub(self.ticks(permits));
        permits.min(used)
    }

    /// Gives back what a grant still holds, and returns how many permits that were: one that drained in
    /// part counts as one.
    pub(super) fn give_back_grant(&mut self, grant: &Grant, same: bool, now: u64) -> u64 {
        let Self { backlog: ticks, rate, per, spaced, .. } = *self;
        let backlog = Backlog { ticks, rate, per: per.max(1), spaced };
        let (held, is_last) = backlog.held_by(grant, same, now.saturating_add(self.ahead));
        if is_last {
            self.shorten(held);
        } else {
            self.backlog -= held;
        }
        held.div_ceil(backlog.per)
    }

    /// Takes ticks from the end. The reservation before begins with the last permit that is left, or
    /// before.
    fn shorten(&mut self, ticks: u64) {
        self.backlog = self.backlog.saturating_sub(ticks);
        let own = if self.spaced { self.per } else { self.most() };
        self.lead = self.lead.min(self.backlog.saturating_sub(own).div_ceil(self.rate));
    }

    /// Somebody reserved, and goes after so many milliseconds.
    pub(super) fn promise(&mut self, wait: u64) {
        self.lead = self.lead.max(wait);
    }

    /// The permits that can be taken before any are owed.
    pub(super) fn room(&self) -> u64 {
        self.holds().saturating_sub(self.backlog) / self.per.max(1)
    }

    /// The permits that were taken beyond what it holds.
    pub(super) fn beyond(&self) -> u64 {
        self.backlog.saturating_sub(self.holds()).div_ceil(self.per.max(1))
    }

    /// What can be taken without owing it, when the last reservation begins.
    fn holds(&self) -> u64 {
        self.most().saturating_add(self.lead.saturating_mul(self.rate))
    }

    /// The permits by which the backlog can grow.
    pub(super) fn most_ahead(&self) -> u64 {
        let most = self.most().saturating_add(MOST_AHEAD).saturating_sub(self.backlog);
        most / self.per.max(1)
    }

    fn most(&self) -> u64 {
        self.ticks(self.capacity)
    }

    fn ticks(&self, permits: u64) -> u64 {
        permits.saturating_mul(self.per)
    }
}

impl Meter for Level {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A leaky bucket hands out whatever one request asks for, once it is empty.
    fn free(&self) -> u64 {
        match self.spaced {
            true if self.backlog == 0 => self.capacity,
            true => 0,
            false => self.most().saturating_sub(self.backlog) / self.per.max(1),
        }
    }

    fn take(&mut self, permits: u64) {
        self.backlog = self.backlog.saturating_add(self.ticks(permits));
    }

    fn wait(&self, permits: u64) -> u64 {
        let over = match self.spaced {
            true => self.backlog,
            false => self.backlog.saturating_sub(self.ticks(self.capacity.saturating_sub(permits))),
        };
        over.div_ceil(self.rate)
    }

    fn full_after(&self) -> u64 {
        self.backlog.div_ceil(self.rate)
    }

    fn ahead(&self) -> u64 {
        self.ahead
    }
}

#[cfg(test)]
mod tests;
