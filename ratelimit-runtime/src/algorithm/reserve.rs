//! Permits that are taken in advance: a bucket knows exactly when it will have them.

use super::{Config, State, Ticket, Verdict, meter::Reserving, ticket::MOST_AHEAD};

/// The verdict of an algorithm on a request that may be granted later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Booking {
    /// As of after the permits were taken, if they were.
    pub(crate) verdict: Verdict,
    /// The milliseconds after which the caller may proceed; also 0 if nothing was taken.
    pub(crate) wait: u64,
    pub(crate) ticket: Ticket,
}

impl Config {
    /// Returns whether permits can be reserved; later callers are then scheduled after them.
    pub(crate) fn reserves(&self) -> bool {
        self.drains()
    }
}

impl State {
    /// Takes the permits of several requests in order, if they are free within this many milliseconds.
    /// After the first rejected request, all are rejected. Other algorithms reject every request.
    pub(crate) fn reserve(
        &mut self,
        config: &Config,
        costs: &[u32],
        within: u64,
        now: u64,
    ) -> Vec<Booking> {
        if self.is_moot(config) || !config.reserves() {
            return vec![Booking::default(); costs.len()];
        }
        let stale = self.is_foreign(config);
        let (bookings, left) = if config.rule.warm_up().is_some() {
            let mut heat = self.heat(config, now);
            let bookings = book_all(&mut heat, costs, within, config.rate, now);
            (bookings, Self::Warm(Box::new(heat.warm(now))))
        } else {
            let mut level = self.level(config, now);
            let bookings = book_all(&mut level, costs, within, config.rate, now);
            (bookings, Self::Bucket(level.at(now)))
        };
        if stale || bookings.iter().any(Booking::has_changed) {
            *self = left;
        }
        bookings
    }
}

impl Booking {
    fn has_changed(&self) -> bool {
        self.verdict.granted || self.verdict.ahead > 0
    }
}

/// Takes permits that are free within this many milliseconds, until a request does not get its permits.
fn book_all(
    meter: &mut impl Reserving,
    costs: &[u32],
    within: u64,
    rate: u64,
    now: u64,
) -> Vec<Booking> {
    let (within, mut open) = (within.min(MOST_AHEAD / rate.max(1)), true);
    let book = |cost: &u32| {
        let cost = u64::from(*cost);
        let wait = (open && cost <= meter.capacity()).then(|| meter.wait(cost));
        let Some(wait) = wait.filter(|wait| *wait <= within) else {
            open = false;
            return Booking::default();
        };
        meter.take(cost);
        let ticket = meter.promise(cost, wait, now);
        Booking { verdict: Verdict { granted: true, ..Verdict::default() }, wait, ticket }
    };
    let mut bookings: Vec<_> = costs.iter().map(book).collect();
    for (booking, cost) in bookings.iter_mut().zip(costs) {
        let Verdict { granted, .. } = booking.verdict;
        let remaining = meter.free();
        booking.verdict = Verdict { granted, remaining, ..meter.outlook((*cost).into()) };
    }
    if let Some(first) = bookings.first_mut() {
        first.verdict.ahead = meter.ahead();
    }
    bookings
}
