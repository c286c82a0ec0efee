//! `rate` permits per `per` in the long run: up to `burst` of them at once in a token bucket, one
//! after the other in a leaky bucket.
//!
//! Permits in use are a backlog that drains steadily (GCRA). It is counted in ticks: `rate` ticks
//! drain per millisecond, and a permit is `per` ticks, so every number is an integer.
//! [Reservations](super::reserve) and [charges](super::charge) add to it beyond what the bucket holds.

use super::{
    Config, Grant, Ticket,
    grant::Backlog,
    meter::{Left, Meter, Owing, Reserving},
    moves::Moves,
    ticket::{MOST_AHEAD, Promised},
};

/// The backlog at the time of the last write, and the configuration it was counted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    backlog: u64,
    at: u64,
    rate: u64,
    per: u64,
    /// The start of the last reservation, if it was in the future then.
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
    /// Whether permits are spaced, one after the other.
    spaced: bool,
    ahead: u64,
    /// The milliseconds until the last reservation begins.
    lead: u64,
    moves: Option<Box<Moves>>,
}

impl Bucket {
    /// Returns whether the bucket is counted with this configuration.
    pub(super) fn fits(&self, config: &Config) -> bool {
        (self.rate, self.per) == (config.rate, config.per_ms)
    }

    /// The permits in use under the bucket's own configuration; a partial permit counts as one.
    pub(super) fn used(&self, now: u64) -> Promised {
        let (backlog, lead, per) = (self.backlog(now), self.lead(now), self.per.max(1));
        let last = backlog.saturating_sub(lead.saturating_mul(self.rate)).div_ceil(per);
        let spare = self.moves.as_ref().map_or(0, |moves| moves.spare(now.max(self.at)));
        Promised { permits: backlog.saturating_sub(spare).div_ceil(per), lead, last }
    }

    /// The time until the bucket is empty and no grant of it can be released.
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

    /// If the clock stepped back, no time has passed.
    #[inline]
    fn backlog(&self, now: u64) -> u64 {
        self.backlog.saturating_sub(now.saturating_sub(self.at).saturating_mul(self.rate))
    }

    /// Opens the bucket under a configuration that it [fits](Self::fits).
    pub(super) fn at(&self, config: &Config, now: u64) -> Level {
        let (backlog, lead, ahead) =
            (self.backlog(now), self.lead(now), self.at.saturating_sub(now));
        let moves = self.moves.clone();
        Level { backlog, lead, ahead, moves, ..Level::empty(config) }
    }

    /// The moves of grants that continue in a bucket of another configuration: all earlier grants
    /// have moved out of it.
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

    /// Takes permits that are free, and returns what is left, or `None` if the clock stepped
    /// back, permits are reserved, or the configuration differs.
    #[inline]
    pub(super) fn spend(&mut self, config: &Config, permits: u64, now: u64) -> Option<Left> {
        let is_plain = now >= self.at && self.last == 0 && self.moves.is_none();
        if !self.fits(config) || !is_plain || self.per == 0 {
            return None;
        }
        let per = self.per;
        let backlog = self.backlog(now).checked_add(permits.checked_mul(per)?)?;
        let ticks = config.capacity().saturating_mul(per).checked_sub(backlog)?;
        (self.backlog, self.at) = (backlog, now);
        Some(Left { amount: ticks, at: 0 })
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

    /// A bucket of which this many ticks are left.
    pub(super) fn with(config: &Config, left: u64) -> Self {
        let level = Self::empty(config);
        Self { backlog: level.most().saturating_sub(left), ..level }
    }

    /// A bucket from which `used` was just taken, even beyond what it holds, because those permits
    /// were promised. Every reservation under this configuration comes after all of them.
    pub(super) fn new(config: &Config, used: Promised) -> Self {
        let mut level = Self { lead: used.lead, ..Self::empty(config) };
        level.backlog = used.ticks(level.rate, level.per).min(level.most_in_all());
        level
    }

    /// Takes over the moves of a bucket with another configuration.
    pub(super) fn after(self, before: &Bucket, now: u64) -> Self {
        let moves = before.moves_on(&self, now);
        Self { moves, ..self }
    }

    /// The time at which the bucket is empty, and the ticks that are left in that millisecond.
    #[inline]
    fn empties(&self, now: u64) -> (u64, u64) {
        (now.saturating_add(self.backlog / self.rate), self.backlog % self.rate)
    }

    /// The state to store. An empty bucket stores no times.
    pub(super) fn at(mut self, now: u64) -> Bucket {
        let moves = self.moves.take();
        let Self { backlog, rate, per, lead, .. } = self;
        let moves = moves.filter(|moves| backlog > 0 || moves.lasts_ms(now) > 0);
        let is_empty = backlog == 0 && moves.is_none();
        let at = if is_empty { 0 } else { now };
        let last = if is_empty || lead == 0 { 0 } else { at.saturating_add(lead) };
        Bucket { backlog, at, rate, per, last, moves }
    }

    /// Releases the oldest permits, and returns how many were released: none of a leaky bucket with
    /// reservations, since two callers would get the same one.
    pub(super) fn give_back(&mut self, permits: u64, now: u64) -> u64 {
        if self.spaced && self.lead > 0 {
            return 0;
        }
        let back = self.drain(0, self.backlog.min(self.ticks(permits)), now);
        back.div_ceil(self.per.max(1))
    }

    /// Releases what a grant still holds, and returns the number of permits; a partially drained
    /// permit counts as one.
    pub(super) fn give_back_grant(&mut self, grant: &Grant, now: u64) -> u64 {
        let Self { backlog: ticks, rate, per, spaced, .. } = *self;
        let (per, moves) = (per.max(1), self.moves.as_deref());
        let backlog = Backlog { ticks, rate, per, spaced, moves };
        let at = now.saturating_add(self.ahead);
        let held = backlog.held_by(grant, at);
        let back = if held.is_last {
            self.backlog -= held.ticks;
            self.lead = self.lead.min(grant.leads(at));
            held.ticks
        } else {
            self.drain(held.before, held.ticks, now)
        };
        back.div_ceil(per)
    }

    /// Removes ticks that drain after `before` others, and returns how many. Grants behind them
    /// move forward; reservations keep the times at which they begin.
    fn drain(&mut self, before: u64, ticks: u64, now: u64) -> u64 {
        if ticks == 0 {
            return 0;
        }
        let (now, rate, lead) = (now.saturating_add(self.ahead), self.rate, self.lead);
        let until = now.saturating_add(self.backlog.div_ceil(rate));
        let moves = self.moves.get_or_insert_default();
        let mut back = ticks;
        if lead > 0 {
            // Times are rounded up, by two milliseconds in total.
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

    /// The ticks that can be taken without debt when the last reservation begins.
    fn holds(&self) -> u64 {
        self.most().saturating_add(self.lead.saturating_mul(self.rate))
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

    /// A leaky bucket grants any single request once it is empty.
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

/// The debt is the backlog beyond what the bucket holds.
impl Owing for Level {
    fn debt(&self) -> u64 {
        self.backlog.saturating_sub(self.holds()).div_ceil(self.per.max(1))
    }

    fn room(&self) -> u64 {
        self.holds().saturating_sub(self.backlog) / self.per.max(1)
    }

    fn owe(&mut self, permits: u64) {
        self.take(permits);
    }

    fn most_owed(&self) -> u64 {
        self.most_in_all().saturating_sub(self.backlog) / self.per.max(1)
    }
}

impl Reserving for Level {
    fn promise(&mut self, permits: u64, wait: u64, now: u64) -> Ticket {
        let (empty_at_ms, ticks) = self.empties(now);
        let before_ms = if self.lead > 0 { now.saturating_add(self.lead) } else { 0 };
        if !self.spaced && wait > 0 && (permits > 1 || self.moves.is_some()) {
            let (ticks, now) = (self.ticks(permits), now.saturating_add(self.ahead));
            let before = self.backlog.saturating_sub(ticks);
            let in_order = self.lead == before.saturating_sub(self.most()).div_ceil(self.rate);
            let room = if in_order { 0 } else { self.holds().saturating_sub(before) };
            let moves = self.moves.get_or_insert_default();
            moves.reserve(ticks, room.min(ticks), self.lead, now);
        }
        self.lead = self.lead.max(wait);
        Ticket { empty_at_ms, ticks, before_ms }
    }
}

#[cfg(test)]
mod tests;
