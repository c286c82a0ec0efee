//! A token bucket that warms up: after a pause, callers are slowed down to a third of the rate, and
//! less with each permit that is taken.
//!
//! Permits that are not taken are stored, up to the warm-up's worth, and measure how cold the
//! bucket is. A permit from the upper half of the store costs up to three times its interval, which
//! the next caller waits for. Counted in ticks, like a bucket.

use super::{
    Config, Grant, Ticket,
    grant::Backlog,
    meter::{Meter, Owing, Reserving},
    ticket::{MOST_AHEAD, Promised},
};

/// When the next caller may proceed, what was stored then, and the configuration it was counted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Warm {
    /// The millisecond, and the ticks that are left then.
    free_at: u64,
    ticks: u64,
    stored: u64,
    rate: u64,
    per: u64,
    warm_up: u64,
    /// The time of the last write.
    at: u64,
    /// The start of the last reservation, if it was in the future then.
    last: u64,
}

/// A bucket that warms up, as of one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heat {
    /// The ticks until the next caller may proceed.
    pending: u64,
    /// The ticks that were not taken; nothing is added while a caller is pending.
    stored: u64,
    rate: u64,
    per: u64,
    warm_up: u64,
    ahead: u64,
    /// The milliseconds until the last reservation begins.
    lead: u64,
}

/// Half of what can be stored; below it a permit costs one interval.
fn threshold(rate: u64, warm_up: u64) -> u64 {
    (rate.saturating_mul(warm_up) / 2).max(1)
}

impl Warm {
    /// Returns whether the bucket is counted with this configuration.
    pub(super) fn fits(&self, config: &Config) -> bool {
        (self.rate, self.per, self.warm_up) == (config.rate, config.per_ms, config.warm_up_ms())
    }

    /// The permits in use under the bucket's own configuration; a partial permit counts as one.
    pub(super) fn used(&self, now: u64) -> Promised {
        let heat = self.now(now);
        let (pending, lead, per) = (heat.pending, heat.lead, self.per.max(1));
        let last = pending.saturating_sub(lead.saturating_mul(self.rate)).div_ceil(per);
        Promised { permits: pending.div_ceil(per), lead, last }
    }

    /// The fewest permits that cost what is pending: fewer than those in use, because cold ones cost more.
    pub(super) fn taken(&self, now: u64) -> u64 {
        let heat = self.now(now);
        let cost = |permits: u64| {
            let stored = heat.stored.saturating_add(permits.saturating_mul(heat.per));
            Heat { stored: stored.min(heat.most()), ..heat }.cost(permits)
        };
        let (mut least, mut most) = (0, heat.pending.div_ceil(heat.per.max(1)));
        while least < most {
            let middle = least + (most - least) / 2;
            if cost(middle) < heat.pending { least = middle + 1 } else { most = middle }
        }
        least
    }

    /// The time until the bucket is as cold as a new one.
    pub(super) fn lasts_ms(&self, now: u64) -> u64 {
        let heat = self.now(now);
        let cold = heat.most().saturating_sub(heat.stored);
        heat.pending.saturating_add(cold).div_ceil(self.rate.max(1))
    }

    /// Returns whether the bucket is as cold as a new one.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        let heat = self.now(now);
        heat.pending == 0 && heat.stored == heat.most()
    }

    /// Opens the bucket as of now, under the configuration it was counted with.
    pub(super) fn at(&self, now: u64) -> Heat {
        Heat { ahead: self.at.saturating_sub(now), ..self.now(now) }
    }

    /// If the clock stepped back, no time has passed.
    fn now(&self, now: u64) -> Heat {
        let (now, Self { free_at, ticks, stored, rate, per, warm_up, .. }) =
            (now.max(self.at), *self);
        let lead = self.last.saturating_sub(now);
        let mut heat = Heat { pending: 0, stored, rate, per, warm_up, ahead: 0, lead };
        if free_at >= now {
            heat.pending = (free_at - now).saturating_mul(rate).saturating_add(ticks);
        } else {
            let passed = (now - free_at).saturating_mul(rate);
            heat.pending = ticks.saturating_sub(passed);
            let idle = passed.saturating_sub(ticks);
            heat.stored = stored.saturating_add(idle).min(heat.most());
        }
        heat
    }
}

impl Heat {
    /// A bucket from which `used` was just taken, even beyond what it holds, because those permits
    /// were promised. It is cold if there were none.
    pub(super) fn new(config: &Config, used: Promised) -> Self {
        let (rate, per, warm_up) = (config.rate.max(1), config.per_ms, config.warm_up_ms());
        let pending =
            used.ticks(rate, per).min(rate.saturating_mul(per).saturating_add(MOST_AHEAD));
        let mut heat = Self { pending, stored: 0, rate, per, warm_up, ahead: 0, lead: used.lead };
        if pending == 0 {
            heat.stored = heat.most();
        }
        heat
    }

    /// The state to store. A cold bucket stores no time.
    pub(super) fn warm(&self, now: u64) -> Warm {
        let Self { pending, stored, rate, per, warm_up, .. } = *self;
        let at = if pending == 0 && stored == self.most() { 0 } else { now };
        let (free_at, ticks) = (at.saturating_add(pending / rate), pending % rate);
        let last = if self.lead > 0 { at.saturating_add(self.lead) } else { 0 };
        Warm { free_at, ticks, stored, rate, per, warm_up, at, last }
    }

    /// Releases permits, and returns how many were released: none while reservations exist, since
    /// two callers would get the same one. The bucket stays as warm as it is.
    pub(super) fn give_back(&mut self, permits: u64) -> u64 {
        if self.lead > 0 {
            return 0;
        }
        let used = self.pending.div_ceil(self.per.max(1));
        self.pending = self.pending.saturating_sub(permits.saturating_mul(self.per));
        permits.min(used)
    }

    /// Releases what a grant still holds, and returns the number of permits. The bucket stays as
    /// warm as it is.
    pub(super) fn give_back_grant(&mut self, grant: &Grant, now: u64) -> u64 {
        let Self { pending: ticks, rate, per, .. } = *self;
        let backlog = Backlog { ticks, rate, per: per.max(1), spaced: true, moves: None };
        let now = now.saturating_add(self.ahead);
        let held = backlog.held_by(grant, now).ticks;
        if held > 0 {
            self.pending -= held;
            self.lead = self.lead.min(grant.leads(now));
        }
        held.div_ceil(backlog.per)
    }

    /// The ticks that can be taken without debt when the last reservation begins.
    fn holds(&self) -> u64 {
        self.rate.saturating_mul(self.per).saturating_add(self.lead.saturating_mul(self.rate))
    }

    fn most(&self) -> u64 {
        threshold(self.rate, self.warm_up).saturating_mul(2)
    }

    /// Returns how long this many permits make the next caller wait, in ticks.
    fn cost(&self, permits: u64) -> u64 {
        let plain = permits.saturating_mul(self.per);
        let left = self.extra(self.stored.saturating_sub(plain));
        plain.saturating_add(self.extra(self.stored).saturating_sub(left))
    }

    /// The cost of everything that is stored, beyond its own time.
    fn extra(&self, stored: u64) -> u64 {
        let threshold = threshold(self.rate, self.warm_up);
        let above = u128::from(stored.saturating_sub(threshold));
        u64::try_from(above.saturating_mul(above) / u128::from(threshold)).unwrap_or(u64::MAX)
    }
}

impl Meter for Heat {
    fn capacity(&self) -> u64 {
        self.rate
    }

    fn free(&self) -> u64 {
        if self.pending == 0 { self.rate } else { 0 }
    }

    fn take(&mut self, permits: u64) {
        self.pending = self.pending.saturating_add(self.cost(permits));
        self.stored = self.stored.saturating_sub(permits.saturating_mul(self.per));
    }

    fn wait(&self, _: u64) -> u64 {
        self.pending.div_ceil(self.rate)
    }

    fn full_after(&self) -> u64 {
        self.pending.div_ceil(self.rate)
    }

    fn ahead(&self) -> u64 {
        self.ahead
    }
}

/// The debt is what is pending beyond what the bucket holds.
impl Owing for Heat {
    fn debt(&self) -> u64 {
        self.pending.saturating_sub(self.holds()).div_ceil(self.per.max(1))
    }

    fn room(&self) -> u64 {
        self.holds().saturating_sub(self.pending) / self.per.max(1)
    }

    fn owe(&mut self, permits: u64) {
        self.take(permits);
    }

    fn most_owed(&self) -> u64 {
        let most = self.rate.saturating_mul(self.per).saturating_add(MOST_AHEAD);
        most.saturating_sub(self.pending) / self.per.max(1)
    }
}

impl Reserving for Heat {
    fn promise(&mut self, _: u64, wait: u64, now: u64) -> Ticket {
        let Warm { free_at, ticks, last, .. } = self.warm(now);
        self.lead = self.lead.max(wait);
        Ticket { empty_at_ms: free_at, ticks, before_ms: last }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_spec::{Mode, Rule};

    use super::*;
    use crate::algorithm::State;

    fn warms_up(rate: u64, per: u64, warm_up: u64) -> Config {
        let rule = Rule::WarmingBucket { warm_up: Duration::from_millis(warm_up) };
        Config::new(rate, per, Mode::Overall).rule(rule)
    }

    /// Returns the waits of consecutive callers for one permit each, and advances the time.
    fn waits(state: &mut State, now: &mut u64, count: usize) -> Vec<u64> {
        let config = warms_up(2, 1000, 4000);
        let mut wait = || {
            let wait = state.reserve(&config, &[1], u64::MAX, *now)[0].wait;
            *now += wait;
            wait
        };
        (0..count).map(|_| wait()).collect()
    }

    #[test]
    fn a_cold_bucket_is_slow_first() {
        let (mut state, mut now) = (State::default(), 5_000);
        let cold = [0, 1375, 1125, 875, 625, 500, 500, 500];
        assert_eq!(waits(&mut state, &mut now, 8), cold);
        now += 500 + 4000;
        assert_eq!(waits(&mut state, &mut now, 8), cold, "a warm-up later it is cold again");
        now += 500 + 2000;
        assert_eq!(waits(&mut state, &mut now, 8), [0, 500, 500, 500, 500, 500, 500, 500]);
    }

    #[test]
    fn what_was_not_taken_is_told_apart_to_the_tick() {
        let (config, mut state) = (warms_up(3, 1000, 777), State::default());
        // All that is stored costs 75 % more than its time, regardless of how it is taken.
        let stored = 3 * 777 / 2 * 2;
        let mut ticks = 0;
        for _ in 0..5 {
            let booking = state.reserve(&config, &[1], u64::MAX, 0)[0];
            ticks = booking.ticket.empty_at_ms * 3 + booking.ticket.ticks;
        }
        assert_eq!(ticks, 5 * 1000 + stored / 2);
    }
}
