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
    time::Duration,
};

use once_cell::sync::{Lazy, OnceCell};
use tokio::time::Instant;

use super::{instant, whole_ms};

/// The time for which the counter is trusted after a comparison.
const TRUSTED_MS: u64 = 100;
const NANOS_PER_MS: u128 = 1_000_000;

/// The origin of all times.
static BASE: Lazy<Instant> = Lazy::new(instant);
static COUNTER: OnceCell<Counter> = OnceCell::new();

struct Counter {
    quanta: quanta::Clock,
    /// The milliseconds of 2^64 counts: a division by the counts of a millisecond takes several times as long.
    scale: u64,
    /// The counts for which a comparison is trusted.
    trusted: u64,
    /// The count at the last comparison.
    checked: AtomicU64,
    /// The count at the base by that comparison, wrapping around zero.
    zero: AtomicU64,
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

/// Returns the milliseconds of the monotonic clock since the base, from the counter once that is ready.
#[inline(always)]
pub(super) fn millis() -> u64 {
    match COUNTER.get() {
        Some(counter) => counter.millis(),
        None => read_millis(),
    }
}

/// The same, if that takes no more than to read the counter.
#[inline(always)]
pub(super) fn counted_millis() -> Option<u64> {
    let counter = COUNTER.get()?;
    counter.millis_at(counter.quanta.raw())
}

#[cold]
fn read_millis() -> u64 {
    whole_ms(since_base(instant()))
}

/// Returns the time from the base to an instant, which is zero if the instant is earlier.
pub(super) fn since_base(instant: Instant) -> Duration {
    instant.saturating_duration_since(*BASE)
}

impl Counter {
    fn new() -> Self {
        let quanta = quanta::Clock::new();
        // 2^40 counts are some minutes.
        let nanos = u128::from(quanta.delta_as_nanos(0, 1 << 40));
        let scale = up_to_max((nanos << 24) / NANOS_PER_MS).max(1);
        let trusted = up_to_max((u128::from(TRUSTED_MS) << 64) / u128::from(scale));
        let (checked, zero) = (AtomicU64::new(0), AtomicU64::new(0));
        let counter = Self { quanta, scale, trusted, checked, zero };
        counter.check(counter.quanta.raw());
        counter
    }

    #[inline(always)]
    fn millis(&self) -> u64 {
        let count = self.quanta.raw();
        self.millis_at(count).unwrap_or_else(|| self.check(count))
    }

    /// Returns the milliseconds of a count, unless the counter has to be compared first.
    #[inline(always)]
    fn millis_at(&self, count: u64) -> Option<u64> {
        // If the counter went back, its last comparison is in the future, and the difference wraps around.
        if count.wrapping_sub(self.checked.load(Ordering::Acquire)) >= self.trusted {
            return None;
        }
        let counts = count.wrapping_sub(self.zero.load(Ordering::Relaxed));
        Some(((u128::from(counts) * u128::from(self.scale)) >> 64) as u64)
    }

    #[cold]
    fn check(&self, count: u64) -> u64 {
        let since_base = since_base(instant());
        // Rounded up, so that a reading after this one is not before it.
        let per_count = u128::from(self.scale) * NANOS_PER_MS;
        let counts = (since_base.as_nanos() << 64).div_ceil(per_count);
        self.zero.store(count.wrapping_sub(up_to_max(counts)), Ordering::Relaxed);
        self.checked.store(count, Ordering::Release);
        whole_ms(since_base)
    }
}

fn up_to_max(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_goes_with_the_clock() {
        let counter = Counter::new();
        let until = instant() + Duration::from_millis(2 * TRUSTED_MS);
        while instant() < until {
            let before = read_millis();
            let counted = counter.millis();
            let after = read_millis();
            assert!(
                (before.saturating_sub(1)..=after + 1).contains(&counted),
                "{before} {counted}"
            );
        }
    }

    #[test]
    fn a_counter_that_stood_still_or_went_back_is_put_right() {
        let counter = Counter::new();
        for checked in [0, u64::MAX / 2, u64::MAX - counter.trusted] {
            counter.zero.store(u64::MAX / 3, Ordering::Relaxed);
            counter.checked.store(checked, Ordering::Relaxed);
            let (counted, after) = (counter.millis(), read_millis());
            assert!(counted <= after, "{counted} {after}");
            assert!(counter.millis() >= counted);
        }
    }

    #[test]
    fn it_is_exact_after_years() {
        // Without a comparison meanwhile.
        let counter = Counter { trusted: u64::MAX, ..Counter::new() };
        let year = 365 * 86_400_000;
        for years in [1, 10, 100] {
            // As if the base were that long ago.
            let ms = years * year;
            let counts = up_to_max((u128::from(ms) << 64) / u128::from(counter.scale));
            let (before, zero) = (counter.millis(), counter.zero.load(Ordering::Relaxed));
            counter.zero.store(zero.wrapping_sub(counts), Ordering::Relaxed);
            let counted = counter.millis() - ms;
            counter.zero.store(zero, Ordering::Relaxed);
            let around = before.saturating_sub(1)..=counter.millis() + 1;
            assert!(around.contains(&counted), "{years}: {counted} is not in {around:?}");
        }
    }

    #[test]
    fn it_is_ready_after_a_while() {
        start();
        COUNTER.wait();
        assert!(millis().abs_diff(read_millis()) < 45);
    }
}
