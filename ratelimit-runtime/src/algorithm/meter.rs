//! The interface of algorithms at one instant: how many permits are used, but not by which caller or when.

use super::{Ticket, Verdict};

/// What is left after permits were spent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// Permits, or the ticks of a bucket.
    pub(super) amount: u64,
    /// The time of the entry of the spent permits in a log.
    pub(super) at: u64,
}

/// A state as of one instant.
pub(super) trait Meter {
    /// The maximum number of permits for one request.
    fn capacity(&self) -> u64;

    /// The number of permits that one request could get now.
    fn free(&self) -> u64;

    /// Takes `permits`, which are free.
    fn take(&mut self, permits: u64);

    /// Returns the milliseconds until `permits`, at most the capacity, can be taken.
    fn wait(&self, permits: u64) -> u64;

    /// The milliseconds until all permits are free.
    fn full_after(&self) -> u64;

    /// How far in the future the state was dated, after the clock stepped back.
    fn ahead(&self) -> u64;

    /// By how many ticks grants have [moved](super::moves) so far.
    fn moved(&self) -> u64 {
        0
    }

    /// Takes permits for several requests in order, and returns the verdict on each.
    fn decide(&mut self, costs: impl Iterator<Item = u64> + Clone) -> Vec<Verdict>
    where
        Self: Sized,
    {
        let decide = |cost| {
            let fits = cost <= self.free();
            self.answer(cost, fits)
        };
        let mut verdicts: Vec<_> = costs.clone().map(decide).collect();
        self.date(&mut verdicts, costs);
        verdicts
    }

    /// Returns whether a request fits, and what is left after it; `take` takes its permits.
    fn answer(&mut self, cost: u64, take: bool) -> Verdict {
        let granted = cost <= self.free();
        if take {
            self.take(cost);
        }
        let remaining = if cost > self.capacity() { self.capacity() } else { self.free() };
        Verdict { granted, remaining, ..Verdict::default() }
    }

    /// Takes the permits of one request if it fits.
    #[inline]
    fn acquire(&mut self, cost: u64) -> Verdict {
        let fits = cost <= self.free();
        let Verdict { granted, remaining, .. } = self.answer(cost, fits);
        Verdict { granted, remaining, ahead: self.ahead(), ..self.outlook(cost) }
    }

    /// Adds the times to the verdicts, as of the end of the batch.
    fn date(&self, verdicts: &mut [Verdict], costs: impl Iterator<Item = u64>)
    where
        Self: Sized,
    {
        for (verdict, cost) in verdicts.iter_mut().zip(costs) {
            let Verdict { granted, remaining, .. } = *verdict;
            *verdict = Verdict { granted, remaining, ..self.outlook(cost) };
        }
        if let Some(first) = verdicts.first_mut() {
            first.ahead = self.ahead();
        }
    }

    /// Returns the verdict on a request without taking anything.
    fn look(&self, cost: u64) -> Verdict {
        Verdict {
            granted: cost <= self.free(),
            remaining: if cost > self.capacity() { self.capacity() } else { self.free() },
            ..self.outlook(cost)
        }
    }

    /// Returns the times of a verdict.
    fn outlook(&self, cost: u64) -> Verdict {
        let free = self.free();
        let more_after = if free < self.capacity() { self.wait(free + 1) } else { 0 };
        let retry_after = match cost {
            _ if cost > self.capacity() => 0,
            // Most refusals: the next permit is the one that is missing.
            _ if cost == free.saturating_add(1) => more_after,
            _ => self.wait(cost),
        };
        Verdict {
            retry_after,
            reset_after: self.full_after(),
            more_after,
            moved: self.moved(),
            ..Verdict::default()
        }
    }
}

/// A meter that can have debt.
pub(super) trait Owing: Meter {
    /// The debt, in permits.
    fn debt(&self) -> u64;

    /// The permits that can be taken without adding debt.
    fn room(&self) -> u64 {
        self.free()
    }

    /// Adds permits that are not free to the debt.
    fn owe(&mut self, permits: u64);

    /// The number of permits by which the debt can grow, regardless of `max_debt`.
    fn most_owed(&self) -> u64 {
        u64::MAX
    }
}

/// A meter that knows when a number of permits will be free.
pub(super) trait Reserving: Meter {
    /// Records a reservation of permits, which were just taken, that begins after `wait` milliseconds.
    fn promise(&mut self, permits: u64, wait: u64, now: u64) -> Ticket;
}
