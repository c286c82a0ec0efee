//! How grants of a bucket move forward when permits before them are released.
//!
//! A bucket drains grants in the order in which they were made. A grant is identified by the time
//! at which it has drained, which comes earlier with each permit released before it. The state
//! counts how far grants moved in total, and a grant keeps that count as of when it was made.
//! Permits released behind a grant do not move it: a list of gaps records their positions.

/// The maximum number of gaps in the list; beyond it, two gaps are merged at the earlier position.
const MOST_GAPS: usize = 8;

/// Numbers are exact in a script up to this value, and wrap to 0.
const WRAP: u64 = 1 << 53;

/// The permits released ahead of other grants, since the bucket was last equivalent to a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// The total, in ticks.
    total: u64,
    /// The millisecond by which all grants made before the last move have drained.
    until: u64,
    /// The largest reservation that has not begun.
    largest: u64,
    /// The ticks of reservations scheduled before earlier ones, made in the previous turn and in this
    /// one, and the end of this turn. A reservation made before a turn has begun when the turn ends.
    overtook: [u64; 2],
    turns_at: u64,
    /// By how many ticks per millisecond draining exceeds the reservations, and until when, because
    /// they were made at a lower rate.
    spare_rate: u64,
    spare_until: u64,
    /// The gaps that have not been reached yet, by time.
    gaps: Vec<Gap>,
}

/// Released ticks, and when the bucket would have begun to drain them.
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

    /// The ticks that must stay in addition to those that drain until the last reservation begins,
    /// so that no reservation drains before it begins.
    pub(super) fn reserved(&mut self, per: u64, lead: u64, now: u64) -> u64 {
        self.turn(lead, now);
        let [earlier, later] = self.overtook;
        self.largest.max(per).saturating_add(earlier).saturating_add(later)
    }

    /// A reservation that overtook others has begun two turns later.
    fn turn(&mut self, lead: u64, now: u64) {
        if lead == 0 {
            (self.largest, self.overtook, self.turns_at) = (0, [0, 0], 0);
        } else if now >= self.turns_at {
            self.overtook = [self.overtook[1], 0];
            self.turns_at = now.saturating_add(lead);
        }
    }

    /// Continues under another configuration, with `rate` ticks per millisecond and `per` ticks per permit.
    /// At most `permits` are reserved; `spare_rate` ticks per millisecond belong to no reservation.
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

    /// The ticks of the backlog that belong to no caller.
    pub(super) fn spare(&self, now: u64) -> u64 {
        self.spare_until.saturating_sub(now).saturating_mul(self.spare_rate)
    }

    /// Returns the ticks by which a grant moved that was to end in `ends_in` ticks, since the total
    /// was `total`, and the ticks in which it ends at the latest, if there is a gap behind it.
    pub(super) fn of_grant(&self, ends_in: u64, total: u64, now: u64, rate: u64) -> (u64, u64) {
        let moved = self.total.checked_sub(total);
        let mut moved = moved.unwrap_or_else(|| WRAP.saturating_sub(total - self.total));
        let mut latest = u64::MAX;
        // A grant ahead of a gap that was reached has drained.
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

    /// Records the release of ticks that would have begun to drain at `at`, which moves all grants
    /// behind them. Before that, all grants would have drained at `until`.
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
            // The two closest gaps are merged, so that the fewest grants lie between them.
            let apart = |n: &usize| self.gaps[n + 1].at - self.gaps[*n].at;
            let closest = (0..MOST_GAPS).min_by_key(apart).unwrap_or_default();
            let later = self.gaps.remove(closest + 1);
            let ticks = &mut self.gaps[closest].ticks;
            *ticks = ticks.saturating_add(later.ticks);
        }
    }

    /// Records a move after which no earlier grant can be found; all of them would have drained at `until`.
    pub(super) fn move_all(&mut self, ticks: u64, until: u64) {
        self.add(ticks, until);
        self.gaps.clear();
    }

    fn add(&mut self, ticks: u64, until: u64) {
        self.total = (self.total + ticks % WRAP) % WRAP;
        self.until = self.until.max(until);
    }
}
