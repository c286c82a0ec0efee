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
    moves::Moves,
    ticket::{MOST_AHEAD, Promised},
};

/// When the backlog is gone, and the numbers it was counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    moves: Option<Box<Moves>>,
}

/// A bucket as of one instant.
#[derive(Clone, Debug)]
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
    moves: Option<Box<Moves>>,
}

impl Bucket {
    /// Returns whether it is counted by these numbers.
    pub(super) fn fits(&self, config: &Config) -> bool {
        (self.rate, self.per) == (config.rate, config.per_ms)
    }

    /// The permits that are not back, by the numbers it was counted by; a part counts as one.
    pub(super) fn used(&self, now: u64) -> Promised {
        let (backlog, lead, per) = (self.backlog(now), self.lead(now), self.per.max(1));
        let last = backlog.saturating_sub(lead.saturating_mul(self.rate)).div_ceil(per);
        let spare = self.moves.as_ref().map_or(0, |moves| moves.spare(now.max(self.at)));
        Promised { permits: backlog.saturating_sub(spare).div_ceil(per), lead, last }
    }

    /// How long until it is empty, and nothing can be given back of it.
    pub(super) fn lasts_ms(&self, now: u64) -> u64 {
        let moves = self.moves.as_ref().map_or(0, |moves| moves.lasts_ms(now));
        self.backlog(now).div_ceil(self.rate.max(1)).max(moves)
    }

    pub(super) fn is_idle(&self, now: u64) -> bool {
        self.lasts_ms(now) == 0
    }

    #[cfg(test)]
    pub(super) fn ticks_left(&self, now: u64) -> u64 {
        self.backlog(now)
    }

    /// No time has passed for a clock that stepped back.
    #[inline]
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
        let moves = self.moves.clone();
        Level { backlog, lead, ahead, moves, ..Level::empty(config) }
    }

    /// The moves of grants that go on in a bucket of other numbers: all that was granted before has moved
    /// out of it.
    fn moves_on(&self, to: &Level, now: u64) -> Option<Box<Moves>> {
        let (lasts_ms, lead) = (self.lasts_ms(now), self.lead(now));
        (lasts_ms > 0).then(|| {
            let mut moves = self.moves.clone().unwrap_or_default();
            if lead > 0 {
                let per = self.per.max(1);
                let reserved = moves.reserved(per, lead, now);
                let reserved =
                    reserved.saturating_add(lead.saturating_mul(self.rate)).div_ceil(per);
                let faster = if to.per == per { to.rate.saturating_sub(self.rate) } else { 0 };
                moves.carry(reserved, (to.rate, to.per), faster, lead, now);
            }
            let ticks = lasts_ms.saturating_mul(to.rate).min(to.most_in_all());
            moves.move_all(ticks, now.saturating_add(lasts_ms));
            moves
        })
    }

    /// Takes permits that are free, and returns how many are left, or `None` if the clock stepped
    /// back, permits are reserved, or other numbers count.
    #[inline]
    pub(super) fn spend(&mut self, config: &Config, permits: u64, now: u64) -> Option<u64> {
        let is_plain = now >= self.at && self.last == 0 && self.moves.is_none();
        if !self.fits(config) || !is_plain || self.per == 0 {
            return None;
        }
        let mut level = Level { backlog: self.backlog(now), ..Level::empty(config) };
        let left = level.free().checked_sub(permits)?;
        level.take(permits);
        (self.empty_at, self.ticks) = level.empties(now);
        self.at = now;
        Some(left)
    }

    fn lead(&self, now: u64) -> u64 {
        self.last.saturating_sub(now.max(self.at))
    }
}

impl Level {
    #[inline]
    fn empty(config: &Config) -> Self {
        Self {
            backlog: 0,
            rate: config.rate.max(1),
            per: config.per_ms,
            capacity: config.capacity(),
            spaced: config.is_spaced(),
            ahead: 0,
            lead: 0,
            moves: None,
        }
    }

    /// A bucket of which this many permits were just taken, also beyond what it holds: they were
    /// promised. Every reservation by these numbers comes after all of them.
    pub(super) fn new(config: &Config, used: Promised) -> Self {
        let mut level = Self { lead: used.lead, ..Self::empty(config) };
        level.backlog = used.ticks(level.rate, level.per).min(level.most_in_all());
        level
    }

    /// The same where a bucket counted by other numbers.
    pub(super) fn after(self, before: &Bucket, now: u64) -> Self {
        let moves = before.moves_on(&self, now);
        Self { moves, ..self }
    }

    /// When it is empty, and the ticks that are left in that millisecond.
    #[inline]
    fn empties(&self, now: u64) -> (u64, u64) {
        (now.saturating_add(self.backlog / self.rate), self.backlog % self.rate)
    }

    /// What is left to remember: nothing of an empty one, not even when that was.
    pub(super) fn at(mut self, now: u64) -> Bucket {
        let moves = self.moves.take();
        let Self { backlog, rate, per, lead, .. } = self;
        let moves = moves.filter(|moves| backlog > 0 || moves.lasts_ms(now) > 0);
        let is_empty = backlog == 0 && moves.is_none();
        let at = if is_empty { 0 } else { now };
        let (empty_at, ticks) = self.empties(at);
        let last = if is_empty || lead == 0 { 0 } else { at.saturating_add(lead) };
        Bucket { empty_at, ticks, rate, per, at, last, moves }
    }

    /// Identifies what the last caller holds.
    pub(super) fn ticket(&self, now: u64) -> Ticket {
        let (empty_at_ms, ticks) = self.empties(now);
        Ticket { empty_at_ms, ticks, stored: 0 }
    }

    /// Gives permits back, the oldest, and returns how many there were to give back: none of a leaky
    /// bucket whose slots are reserved, since two callers would get one.
    pub(super) fn give_back(&mut self, permits: u64, now: u64) -> u64 {
        if self.spaced && self.lead > 0 {
            return 0;
        }
        let back = self.drain(0, self.backlog.min(self.ticks(permits)), now);
        back.div_ceil(self.per.max(1))
    }

    /// Gives back what a grant still holds, and returns how many permits that were: one that drained in
    /// part counts as one.
    pub(super) fn give_back_grant(&mut self, grant: &Grant, now: u64) -> u64 {
        let Self { backlog: ticks, rate, per, spaced, .. } = *self;
        let (per, moves) = (per.max(1), self.moves.as_deref());
        let backlog = Backlog { ticks, rate, per, spaced, moves };
        let held = backlog.held_by(grant, now.saturating_add(self.ahead));
        let back = if held.is_last {
            self.shorten(held.ticks);
            held.ticks
        } else {
            self.drain(held.before, held.ticks, now)
        };
        back.div_ceil(per)
    }

    /// Removes ticks that come after `before` others, and returns how many. Grants behind them move forward;
    /// reservations begin at the times that they were given.
    fn drain(&mut self, before: u64, ticks: u64, now: u64) -> u64 {
        if ticks == 0 {
            return 0;
        }
        let (now, rate, lead) = (now.saturating_add(self.ahead), self.rate, self.lead);
        let until = now.saturating_add(self.backlog.div_ceil(rate));
        let moves = self.moves.get_or_insert_default();
        let mut back = ticks;
        if lead > 0 {
            // Times are rounded up: two milliseconds in all.
            let drains = lead.saturating_add(2).saturating_mul(rate);
            let kept = moves.reserved(self.per, lead, now).saturating_add(drains);
            back = back.min(self.backlog.saturating_sub(kept));
        }
        if back > 0 {
            let at = now.saturating_add((before + ticks - back) / rate);
            moves.move_behind(at, back, rate, now, until);
            self.backlog -= back;
        }
        back
    }

    /// Takes ticks from the end. The reservation before begins with the last permit that is left, or
    /// before.
    fn shorten(&mut self, ticks: u64) {
        let before = self.backlog;
        self.backlog = before.saturating_sub(ticks);
        // Where grants moved forward, reservations go later than their places say.
        let in_order = self.moves.as_ref().is_none_or(|moves| moves.are_in_order());
        if self.spaced || (in_order && self.lead <= self.begins_in(before)) {
            self.lead = self.lead.min(self.begins_in(self.backlog));
        }
    }

    /// The milliseconds until the last permit of such a backlog begins to be free, in its place.
    fn begins_in(&self, backlog: u64) -> u64 {
        let own = if self.spaced { self.per } else { self.most() };
        backlog.saturating_sub(own).div_ceil(self.rate)
    }

    /// Records a reservation of permits that begins after `wait` milliseconds.
    pub(super) fn promise(&mut self, permits: u64, wait: u64, now: u64) {
        if !self.spaced && wait > 0 && (permits > 1 || self.moves.is_some()) {
            let (ticks, now) = (self.ticks(permits), now.saturating_add(self.ahead));
            let before = self.backlog.saturating_sub(ticks);
            let in_order = self.lead == self.begins_in(before);
            let room = if in_order { 0 } else { self.holds().saturating_sub(before) };
            let moves = self.moves.get_or_insert_default();
            moves.reserve(ticks, room.min(ticks), self.lead, now);
        }
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
        self.most_in_all().saturating_sub(self.backlog) / self.per.max(1)
    }

    fn most_in_all(&self) -> u64 {
        self.most().saturating_add(MOST_AHEAD)
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

    /// A leaky bucket grants any single request, once it is empty.
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

    fn moved(&self) -> u64 {
        self.moves.as_ref().map_or(0, |moves| moves.total())
    }
}

#[cfg(test)]
mod tests;
