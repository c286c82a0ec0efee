//! Permits that are taken in advance: a bucket knows exactly when it has them.

use ratelimit_spec::Algorithm;

use super::{Config, State, Verdict, meter::Meter};

/// The most ticks a caller can reserve ahead: with as many as a bucket can hold (2^52) they stay
/// below 2^53, and so does the time at which they are gone.
const MOST_AHEAD: u64 = 1 << 51;

/// What a reservation left behind. As long as it is still there nobody reserved after it, and the
/// slot can be given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// When the bucket is empty, in milliseconds since the Unix epoch.
    pub(crate) empty_at_ms: u64,
    /// The ticks that are left in it then.
    pub(crate) ticks: u64,
    /// What was stored before, where a bucket warms up.
    pub(crate) stored: u64,
}

/// What a rule says to a request that may be granted later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Booking {
    /// As of after the permits were taken, if they were.
    pub(crate) verdict: Verdict,
    /// The milliseconds after which it may go; 0 when nothing was taken, too.
    pub(crate) wait: u64,
    pub(crate) ticket: Ticket,
}

impl Config {
    /// Whether permits can be reserved: who comes later then comes after.
    pub(crate) fn reserves(&self) -> bool {
        matches!(self.algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket)
    }
}

impl State {
    /// Takes permits that are free within so many milliseconds; what other rules count is refused.
    pub(crate) fn reserve(
        &mut self,
        config: &Config,
        permits: u64,
        within: u64,
        now: u64,
    ) -> Booking {
        if self.is_moot(config) || !config.reserves() {
            return Booking::default();
        }
        if config.warm_up_ms > 0 {
            let mut heat = self.heat(config, now);
            let stored = heat.stored();
            let mut booking = book(&mut heat, permits, within, config.rate);
            if booking.verdict.granted {
                booking.ticket = heat.ticket(now, stored);
            }
            if booking.has_changed() || self.is_foreign(config) {
                *self = Self::Warm(heat.warm(now));
            }
            return booking;
        }
        let mut level = self.level(config, now);
        let mut booking = book(&mut level, permits, within, config.rate);
        let bucket = level.at(now);
        if booking.verdict.granted {
            booking.ticket = bucket.ticket();
        }
        if booking.has_changed() || self.is_foreign(config) {
            *self = Self::Bucket(bucket);
        }
        booking
    }

    /// Gives back what was reserved, if nobody reserved or took anything after it.
    pub(crate) fn give_up(
        &mut self,
        config: &Config,
        permits: u64,
        ticket: Ticket,
        now: u64,
    ) -> bool {
        match self {
            Self::Bucket(bucket) if bucket.ticket() == ticket => {
                self.release(config, permits, now) > 0
            }
            Self::Warm(warm) if warm.is(ticket) && warm.fits(config) => {
                let mut heat = warm.at(now);
                heat.undo(permits, ticket.stored);
                *warm = heat.warm(now);
                true
            }
            _ => false,
        }
    }
}

impl Booking {
    fn has_changed(&self) -> bool {
        self.verdict.granted || self.verdict.ahead > 0
    }
}

/// Takes permits that are free within so many milliseconds.
fn book(meter: &mut impl Meter, permits: u64, within: u64, rate: u64) -> Booking {
    let within = within.min(MOST_AHEAD / rate.max(1));
    let wait = (permits <= meter.capacity()).then(|| meter.wait(permits));
    let wait = wait.filter(|wait| *wait <= within);
    if wait.is_some() {
        meter.take(permits);
    }
    let (granted, remaining, ahead) = (wait.is_some(), meter.free(), meter.ahead());
    let verdict = Verdict { granted, remaining, ahead, ..meter.outlook(permits) };
    Booking { verdict, wait: wait.unwrap_or(0), ticket: Ticket::default() }
}
