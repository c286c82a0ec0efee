//! Callers that cannot be admitted in time.

use super::{Leaving, Line, Pace, Part};

impl<S, T: Part> Line<S, T> {
    /// Removes the callers that cannot be admitted in time: no caller is admitted before the head.
    pub(super) fn turn_away(&mut self, now: u64, leaving: &mut Vec<Leaving<S, T>>) {
        loop {
            let earliest = if self.asking { now } else { self.head_at().max(now) };
            let lag = self.lag();
            let is_over = |until: u64| until.saturating_add(lag) < earliest;
            // First the head: without it, the others may be in time.
            let head = self.head().filter(|head| !self.asking && head.until.is_some_and(is_over));
            let next = || self.next_limit().filter(|(until, _)| is_over(*until));
            let over = head.map(|head| head.number).or_else(|| Some(next()?.1));
            let Some(place) = over.and_then(|number| self.leave(number, now)) else { return };
            leaving.push(Leaving::TooLate(place, earliest.saturating_sub(now)));
        }
    }

    /// Returns the position whose wait ends first, except the one that a request in progress will answer.
    pub(super) fn next_limit(&self) -> Option<(u64, u64)> {
        let head = || self.head().filter(|_| self.asking).map(|head| head.number);
        let asked = self.asked.or_else(head);
        self.limits.iter().find(|(_, number)| Some(*number) != asked).copied()
    }

    /// Records that the store replied by other numbers. How many permits a bucket has beside reservations that were made
    /// by the former ones is not known.
    pub(in crate::limiter::wait) fn doubt(&mut self) {
        self.doubtful |= self.slots.is_empty();
    }

    pub(in crate::limiter::wait) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Removes the callers behind the reservations that cannot be in time, because the rate may be lower since they
    /// joined: the bucket is empty when the last reservation is used. Without reservations, `least_ms` is the time from
    /// the turn of the head to that of a caller of some permits behind others, if there can be one.
    pub(super) fn turn_away_behind(
        &mut self,
        now: u64,
        pace: Option<Pace>,
        least_ms: impl Fn(u64, u64) -> Option<u64>,
        leaving: &mut Vec<Leaving<S, T>>,
    ) {
        let last = self.next_slot().and(self.slots.back()).zip(pace);
        let (from, lag) = match last {
            Some((last, _)) => (last.at, last.lag),
            None if self.slots.is_empty() => (self.due.at, self.due.lag),
            None => return,
        };
        if !self.doubtful || self.asking || from <= now {
            return;
        }
        let (mut ahead, mut late) = (0_u64, Vec::new());
        for place in self.places.iter().skip(self.slots.len()) {
            let permits = u64::from(place.permits);
            let after = match last {
                Some((_, pace)) if !pace.grants(place.permits) => None,
                Some((last, pace)) if pace.spaced => {
                    Some(pace.least_ms(ahead + u64::from(last.permits)))
                }
                Some((_, pace)) => Some(pace.least_ms(ahead + permits)),
                None => least_ms(ahead, permits),
            };
            // A caller that the limits can never admit takes nothing.
            let Some(after) = after else { continue };
            let earliest = from.saturating_add(after);
            if place.until.is_some_and(|until| until.saturating_add(lag) < earliest) {
                late.push((place.number, earliest));
            } else if place.alone {
                // Any other caller leaves if another limiter delays it.
                ahead += permits;
            }
        }
        self.doubtful = false;
        for (number, earliest) in late {
            let place = self.leave(number, now);
            leaving.extend(place.map(|place| Leaving::TooLate(place, earliest - now)));
        }
    }

    /// Returns whether permits are reserved for callers that arrived later.
    pub(in crate::limiter::wait) fn reserves_for_later(&self, number: u64) -> bool {
        self.slots.len() > self.costs_before(number).count()
    }
}
