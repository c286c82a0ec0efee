//! The monotonic clock, read from the processor's counter, which takes a fraction of the time.
//!
//! The counter is compared with the clock ten times a second. So it cannot drift, and after the
//! machine slept or moved to another host, both agree again within that time.

use std::{
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use once_cell::sync::{Lazy, OnceCell};
use tokio::time::Instant;

use super::instant;

/// The time for which the counter is trusted after a comparison.
const TRUSTED_NS: u64 = 100_000_000;

/// The origin of all times.
static BASE: Lazy<Instant> = Lazy::new(instant);
static COUNTER: OnceCell<Counter> = OnceCell::new();

struct Counter {
    quanta: quanta::Clock,
    start: u64,
    /// The counter at the last comparison, in nanoseconds since the start.
    checked: AtomicU64,
    /// How far the clock was ahead of the counter then, wrapping around zero.
    ahead: AtomicU64,
}

/// Calibrates the counter in the background, which takes about 20 ms, and 200 ms at most.
pub(super) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let calibrate = || {
            COUNTER.get_or_init(Counter::new);
        };
        // Without a thread the system's clock remains in use.
        let _ = thread::Builder::new().name("ratelimit-clock".into()).spawn(calibrate);
    });
}

/// Returns the nanoseconds of the monotonic clock since the base, once the counter is ready.
#[inline]
pub(super) fn nanos() -> Option<u64> {
    COUNTER.get().map(Counter::nanos)
}

/// Returns the nanoseconds at an instant, or at the base if the instant is earlier.
pub(super) fn nanos_at(instant: Instant) -> u64 {
    let passed = instant.saturating_duration_since(*BASE).as_nanos();
    u64::try_from(passed).unwrap_or(u64::MAX)
}

impl Counter {
    fn new() -> Self {
        let quanta = quanta::Clock::new();
        let (start, ahead) = (quanta.raw(), nanos_at(instant()));
        Self { quanta, start, checked: AtomicU64::new(0), ahead: AtomicU64::new(ahead) }
    }

    #[inline]
    fn nanos(&self) -> u64 {
        let counted = self.quanta.delta_as_nanos(self.start, self.quanta.raw());
        // If the counter went back, its last comparison is in the future, and the difference wraps around.
        if counted.wrapping_sub(self.checked.load(Ordering::Acquire)) >= TRUSTED_NS {
            return self.check(counted);
        }
        counted.wrapping_add(self.ahead.load(Ordering::Relaxed))
    }

    #[cold]
    fn check(&self, counted: u64) -> u64 {
        let nanos = nanos_at(instant());
        self.ahead.store(nanos.wrapping_sub(counted), Ordering::Relaxed);
        self.checked.store(counted, Ordering::Release);
        nanos
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const CLOSE: u64 = 900_000;

    #[test]
    fn the_counter_goes_with_the_clock() {
        let counter = Counter::new();
        let until = instant() + Duration::from_millis(30);
        while instant() < until {
            let before = nanos_at(instant());
            let counted = counter.nanos();
            let after = nanos_at(instant());
            assert!(counted + CLOSE > before && counted < after + CLOSE, "{before} {counted}");
        }
    }

    #[test]
    fn a_counter_that_stood_still_or_went_back_is_put_right() {
        let counter = Counter::new();
        for checked in [u64::MAX / 2, u64::MAX - TRUSTED_NS] {
            counter.ahead.store(u64::MAX / 3, Ordering::Relaxed);
            counter.checked.store(checked, Ordering::Relaxed);
            let (counted, after) = (counter.nanos(), nanos_at(instant()));
            assert!(counted <= after, "{counted} {after}");
            assert!(counter.nanos() >= counted);
        }
    }

    #[test]
    fn it_is_ready_after_a_while() {
        start();
        COUNTER.wait();
        let (counted, read) = (nanos().unwrap(), nanos_at(instant()));
        assert!(counted.abs_diff(read) < 50 * CLOSE, "{counted} {read}");
    }
}
