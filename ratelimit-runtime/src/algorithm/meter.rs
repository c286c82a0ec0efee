//! What the rules have in common that know how much is used, and not by whom or when.

use super::Verdict;

/// A state as of one instant.
pub(super) trait Meter: Copy {
    /// The most permits one request can get.
    fn capacity(&self) -> u64;

    /// The permits one request could get now.
    fn free(&self) -> u64;

    /// Takes so many permits, which are free.
    fn take(&mut self, permits: u64);

    /// The milliseconds until so many permits could be taken, which are not above the capacity.
    fn wait(&self, permits: u64) -> u64;

    /// The milliseconds until everything is free.
    fn full_after(&self) -> u64;

    /// How far in the future it was dated, after the clock stepped back.
    fn ahead(&self) -> u64;

    /// Takes permits for several requests in order, and says to each how it went.
    fn decide(&mut self, costs: impl Iterator<Item = u64> + Clone) -> Vec<Verdict> {
        let mut before = *self;
        for cost in costs.clone() {
            self.try_take(cost);
        }
        let mut ahead = self.ahead();
        let verdict = |cost| Verdict {
            granted: before.try_take(cost),
            ahead: std::mem::take(&mut ahead),
            remaining: if cost > self.capacity() { self.capacity() } else { before.free() },
            ..self.outlook(cost)
        };
        costs.map(verdict).collect()
    }

    /// What it would say to a request.
    fn look(&self, cost: u64) -> Verdict {
        Verdict {
            granted: cost <= self.free(),
            remaining: if cost > self.capacity() { self.capacity() } else { self.free() },
            ..self.outlook(cost)
        }
    }

    fn try_take(&mut self, cost: u64) -> bool {
        let granted = cost <= self.free();
        if granted {
            self.take(cost);
        }
        granted
    }

    /// The times of a verdict.
    fn outlook(&self, cost: u64) -> Verdict {
        let retry_after = if cost > self.capacity() { 0 } else { self.wait(cost) };
        Verdict { retry_after, reset_after: self.full_after(), ..Verdict::default() }
    }
}
