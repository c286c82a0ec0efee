//! How grants of a bucket move forward when permits before them are given back.
//!
//! A bucket drains grants in the order in which they were made. A grant is identified by the time at which it
//! has drained, which comes earlier with each permit that is given back before it. The state counts how far
//! grants moved in total, and a grant keeps that count as of when it was made. Permits that are given back
//! behind a grant do not move it: a list of gaps says where they were.

/// The maximum number of gaps in the list; beyond it, two gaps are merged at the earlier place.
const MOST_GAPS: usize = 8;

/// Numbers are exact in a script up to here, and begin again at 0.
const WRAP: u64 = 1 << 53;

/// What was given back before other grants, since a bucket was last as good as new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// The ticks, in all.
    total: u64,
    /// The millisecond by which every grant has drained that was made before the last of them.
    until: u64,
    /// The largest reservation that is still to begin.
    largest: u64,
    /// Reservations that go before others that were made before them: those of one turn and of the
    /// next, in ticks; and when the turn ends. A reservation made before a turn has begun when the turn ends.
    overtook: [u64; 2],
    turns_at: u64,
    /// By how many ticks in a millisecond more drains than is reserved, and until when: reservations
    /// were made at a lower rate.
    spare_rate: u64,
    spare_until: u64,
    /// Those that have not been reached yet, by their times.
    gaps: Vec<Gap>,
}

/// Ticks that were given back, and when the bucket would have begun to drain them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    at: u64,
    ticks: u64,
}

impl Moves {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The milliseconds until a grant that is older than the last move cannot hold anything.
    pub(super) fn lasts_ms(&self, now: u64) -> u64 {
        self.until.saturating_sub(now)
    }

    /// Records a reservation of this many ticks, of which `overtaking` drain before the last reservation begins,
    /// in `lead` milliseconds.
    pub(super) fn reserve(&mut self, ticks: u64, overtaking: u64, lead: u64, now: u64) {
        self.turn(lead, now);
        self.largest = self.largest.max(ticks);
        self.overtook[1] = self.overtook[1].saturating_add(overtaking);
    }

    /// The ticks that have to stay beside those that drain until the last reservation begins, so that
    /// none drains before it begins.
    pub(super) fn reserved(&mut self, per: u64, lead: u64, now: u64) -> u64 {
        self.turn(lead, now);
        let [earlier, later] = self.overtook;
        self.largest.max(per).saturating_add(earlier).saturating_add(later)
    }

    /// Returns whether reservations go in the order in which they were made.
    pub(super) fn are_in_order(&self) -> bool {
        self.overtook == [0, 0]
    }

    /// What overtook others has begun two turns later.
    fn turn(&mut self, lead: u64, now: u64) {
        if lead == 0 {
            (self.largest, self.overtook, self.turns_at) = (0, [0, 0], 0);
        } else if now >= self.turns_at {
            self.overtook = [self.overtook[1], 0];
            self.turns_at = now.saturating_add(lead);
        }
    }

    /// Goes on by other numbers, of which `rate` ticks drain in a millisecond and `per` are a permit,
    /// with at most `permits` reserved, and `spare_rate` ticks in a millisecond that no caller reserved.
    pub(super) fn carry(
        &mut self,
        permits: u64,
        (rate, per): (u64, u64),
        spare_rate: u64,
        lead: u64,
        now: u64,
    ) {
        self.largest = permits.saturating_mul(per).saturating_sub(lead.saturating_mul(rate));
        (self.overtook, self.turns_at) = ([0, 0], now.saturating_add(lead));
        (self.spare_rate, self.spare_until) = (spare_rate, self.turns_at);
    }

    /// The ticks of the backlog that no caller has.
    pub(super) fn spare(&self, now: u64) -> u64 {
        self.spare_until.saturating_sub(now).saturating_mul(self.spare_rate)
    }

    /// The ticks by which a grant moved that was to end in `ends_in` ticks, since the total was `total`; and the
    /// ticks in which it ends at the latest, if there is a gap behind it.
    pub(super) fn of_grant(&self, ends_in: u64, total: u64, now: u64, rate: u64) -> (u64, u64) {
        let moved = self.total.checked_sub(total);
        let mut moved = moved.unwrap_or_else(|| WRAP.saturating_sub(total - self.total));
        let mut latest = u64::MAX;
        // A grant before a gap that was reached has drained.
        for gap in self.gaps.iter().rev().take_while(|gap| gap.at > now) {
            let begins_in = (gap.at - now).saturating_mul(rate);
            if ends_in > moved.saturating_add(begins_in) {
                break;
            }
            moved = moved.saturating_sub(gap.ticks);
            latest = begins_in;
        }
        (moved, latest)
    }

    /// Ticks were given back which would have begun to drain `at` a time, and moved all behind them.
    /// Before that, all would have drained `until` a time.
    pub(super) fn move_behind(&mut self, at: u64, ticks: u64, rate: u64, now: u64, until: u64) {
        self.add(ticks, until);
        self.gaps.retain(|gap| gap.at > now);
        let place = self.gaps.partition_point(|gap| gap.at <= at);
        for gap in &mut self.gaps[place..] {
            gap.at = gap.at.saturating_sub(ticks.div_ceil(rate)).max(at);
        }
        if at > now {
            self.gaps.insert(place, Gap { at, ticks });
        }
        if self.gaps.len() > MOST_GAPS {
            // The two that are the closest, so that the fewest grants lie between them.
            let apart = |n: &usize| self.gaps[n + 1].at - self.gaps[*n].at;
            let closest = (0..MOST_GAPS).min_by_key(apart).unwrap_or_default();
            let later = self.gaps.remove(closest + 1);
            let ticks = &mut self.gaps[closest].ticks;
            *ticks = ticks.saturating_add(later.ticks);
        }
    }

    /// Nothing that was granted before is found again; it would have drained `until` a time.
    pub(super) fn move_all(&mut self, ticks: u64, until: u64) {
        self.add(ticks, until);
        self.gaps.clear();
    }

    fn add(&mut self, ticks: u64, until: u64) {
        self.total = (self.total + ticks % WRAP) % WRAP;
        self.until = self.until.max(until);
    }
}
