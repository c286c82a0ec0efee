use std::{
    thread,
    time::{Duration, Instant},
};

/// Waits until `check` holds, looking every few milliseconds.
///
/// # Panics
///
/// Panics if it does not hold `within` that time; `what` describes what was awaited.
#[track_caller]
pub fn eventually(what: &str, within: Duration, mut check: impl FnMut() -> bool) {
    let give_up = Instant::now() + within;
    while !check() {
        assert!(Instant::now() < give_up, "{what}: not so after {within:?}");
        thread::sleep(Duration::from_millis(2));
    }
}
