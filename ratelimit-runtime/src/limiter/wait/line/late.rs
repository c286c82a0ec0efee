//! Callers that cannot be admitted in time.

use super::{Leaving, Line, Part};

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
}
