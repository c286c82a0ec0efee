//! The monotonic clock, by the processor's counter: that is read in a fraction of the time.
//!
//! The counter is held against the clock ten times a second. So it cannot drift from it, and after the machine slept, or
//! moved to another one, both agree again within that time.

use std::{
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use once_cell::sync::OnceCell;
use tokio::time::Instant;

use super::instant;

/// For how long the counter is taken for the clock.
const TRUSTED_NS: u64 = 100_000_000;

static COUNTER: OnceCell<Counter> = OnceCell::new();

struct Counter {
    quanta: quanta::Clock,
    start: quanta::Instant,
    /// When the two were last held against each other: the nanoseconds since the start by the counter.
    checked: AtomicU64,
    /// What the clock was ahead of the counter then, wrapping around zero.
    ahead: AtomicU64,
    /// The start by the clock.
    anchor: Instant,
}

/// Makes the counter ready, beside the caller: that takes about 20 ms, and 200 ms at most.
pub(super) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let calibrate = || {
            COUNTER.get_or_init(Counter::new);
        };
        // Without a thread the system's clock stays in use.
        let _ = thread::Builder::new().name("ratelimit-clock".into()).spawn(calibrate);
    });
}

/// The time since an instant of the monotonic clock, once the counter is ready.
pub(super) fn since(anchor: Instant) -> Option<Duration> {
    let counter = COUNTER.get()?;
    let passed = Duration::from_nanos(counter.passed_ns());
    // An anchor may be older than the counter.
    match counter.anchor.checked_duration_since(anchor) {
        Some(before) => Some(passed + before),
        None => Some(passed.saturating_sub(anchor.saturating_duration_since(counter.anchor))),
    }
}

impl Counter {
    fn new() -> Self {
        let quanta = quanta::Clock::new();
        let (start, anchor) = (quanta.now(), instant());
        Self { quanta, start, checked: AtomicU64::new(0), ahead: AtomicU64::new(0), anchor }
    }

    /// Nanoseconds since the start.
    fn passed_ns(&self) -> u64 {
        let counted = nanos(self.quanta.now().saturating_duration_since(self.start));
        // A counter that went back was checked in its future: the difference wraps around.
        if counted.wrapping_sub(self.checked.load(Ordering::Acquire)) >= TRUSTED_NS {
            return self.check(counted);
        }
        counted.wrapping_add(self.ahead.load(Ordering::Relaxed))
    }

    #[cold]
    fn check(&self, counted: u64) -> u64 {
        let passed = nanos(instant().saturating_duration_since(self.anchor));
        self.ahead.store(passed.wrapping_sub(counted), Ordering::Relaxed);
        self.checked.store(counted, Ordering::Release);
        passed
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSE: Duration = Duration::from_micros(900);

    #[test]
    fn the_counter_goes_with_the_clock() {
        let counter = Counter::new();
        let until = instant() + Duration::from_millis(30);
        while instant() < until {
            let before = instant();
            let counted = counter.anchor + Duration::from_nanos(counter.passed_ns());
            let after = instant();
            assert!(counted + CLOSE > before && counted < after + CLOSE, "{before:?} {counted:?}");
        }
    }

    #[test]
    fn a_counter_that_stood_still_or_went_back_is_put_right() {
        let counter = Counter::new();
        for checked in [u64::MAX / 2, u64::MAX - TRUSTED_NS] {
            counter.ahead.store(12_345_678_900, Ordering::Relaxed);
            counter.checked.store(checked, Ordering::Relaxed);
            let passed = counter.passed_ns();
            assert!(passed < 10_000_000_000, "{passed}");
            assert!(counter.passed_ns() >= passed);
        }
    }

    #[test]
    fn an_anchor_may_be_older_or_younger_than_the_counter() {
        start();
        COUNTER.wait();
        for anchor in [instant() - Duration::from_secs(5), instant()] {
            let counted = since(anchor).unwrap();
            let passed = instant().saturating_duration_since(anchor);
            assert!(passed.abs_diff(counted) < CLOSE, "{passed:?} {counted:?}");
        }
    }
}
