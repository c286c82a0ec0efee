//! Fixed windows and a clock that steps back. Time on a server cannot be turned back by a test that
//! only calls limiters: `promises.rs` has the same trace for scripts.

use std::time::UNIX_EPOCH;

use ratelimit_runtime::{Limiter, test_util::ManualClock};

use super::calls::{SECOND, admitted_of, embedded_at, ms, quota, retry_after};

/// Three a second, at the beginning of a window of which nothing is used.
async fn at_the_start_of_a_window() -> (ManualClock, Limiter) {
    let clock = ManualClock::new();
    let limits = embedded_at(&clock, "{}").await;
    let limiter = limits.limiter("x", quota(3, SECOND).fixed_window());
    assert_eq!(admitted_of(&limiter, 4).await, 3);
    clock.advance(retry_after(&limiter, 1).await);
    (clock, limiter)
}

#[tokio::test]
async fn a_step_back_into_the_window_before_admits_nothing_twice() {
    // The window before was found to be over, and a new one began with all its permits.
    let (clock, limiter) = at_the_start_of_a_window().await;
    clock.advance(ms(10));
    assert_eq!(admitted_of(&limiter, 4).await, 3);
    clock.step_back(ms(20));
    assert_eq!(admitted_of(&limiter, 4).await, 0);
    assert_eq!(retry_after(&limiter, 1).await, ms(1_010), "until the later window is over");
    clock.advance(ms(1_009));
    assert_eq!(admitted_of(&limiter, 4).await, 0);
    clock.advance(ms(1));
    assert_eq!(admitted_of(&limiter, 4).await, 3);
}

#[tokio::test]
async fn what_is_left_of_a_window_is_left_after_a_step_back() {
    // As above: what was not used yet is neither lost nor doubled.
    let (clock, limiter) = at_the_start_of_a_window().await;
    clock.advance(ms(10));
    assert_eq!(admitted_of(&limiter, 1).await, 1);
    clock.step_back(ms(20));
    assert_eq!(admitted_of(&limiter, 1).await, 1);
    clock.advance(ms(500));
    assert_eq!(admitted_of(&limiter, 4).await, 1, "of one window, on both sides of its start");
    clock.advance(ms(509));
    assert_eq!(admitted_of(&limiter, 4).await, 0);
    clock.advance(ms(1));
    assert_eq!(admitted_of(&limiter, 4).await, 3);
}

#[tokio::test]
async fn a_step_back_of_many_windows_locks_nobody_out_for_longer_than_one() {
    // What was used counted until the clock was back where it had been.
    let (clock, limiter) = at_the_start_of_a_window().await;
    clock.advance(ms(400));
    assert_eq!(admitted_of(&limiter, 4).await, 3);
    clock.step_back(100 * SECOND);
    assert_eq!(admitted_of(&limiter, 4).await, 0, "it counts as used now");
    // Not 600, with the window that is now: that may end in a moment, and the next be a third one.
    assert_eq!(retry_after(&limiter, 1).await, ms(1_000));
    clock.advance(ms(999));
    assert_eq!(admitted_of(&limiter, 4).await, 0);
    clock.advance(ms(1));
    assert_eq!(admitted_of(&limiter, 4).await, 3);
    clock.advance(ms(999));
    assert_eq!(admitted_of(&limiter, 4).await, 0);
}

#[tokio::test]
async fn a_clock_of_a_test_steps_back_no_further_than_1970() {
    // It went on half a billion years later.
    let clock = ManualClock::at(UNIX_EPOCH + ms(5));
    let limits = embedded_at(&clock, "{}").await;
    clock.step_back(SECOND);
    let permit = limits.limiter("x", quota(3, SECOND)).try_acquire(1).await.unwrap();
    assert_eq!(permit.at(), UNIX_EPOCH);
}
