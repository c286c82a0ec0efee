//! Fixed windows and a clock that steps back. Time on a server cannot be turned back by a test that
//! only calls limiters: `promises.rs` has the same trace for scripts.

use std::time::{Duration, UNIX_EPOCH};

use ratelimit_runtime::{Limiter, Limits, Mode, Quota, Settings, test_util::ManualClock};

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

#[tokio::test]
async fn a_clock_that_is_advanced_to_its_end_stops_there() {
    // It started again in 1970, or the time of the next window was more than 64 bits.
    let last = UNIX_EPOCH + ms(1 << 52);
    let rules = [
        "10 per 1s",
        "10 per 1s, fixed window",
        "10 per 1s, token bucket of 10",
        "10 per 1s, leaky bucket",
        "10 per 1s, token bucket that warms up in 1s",
        "10 per month (Europe/Vienna)",
    ];
    for at in [UNIX_EPOCH, last, last + Duration::MAX / (1 << 10)] {
        for (rule, mode) in
            rules.iter().flat_map(|rule| [(rule, Mode::Overall), (rule, Mode::PerClient)])
        {
            let clock = ManualClock::at(at);
            let limits = Limits::builder().memory().no_limits_file().clock(clock.clone());
            let limits = limits.build().await.unwrap();
            let quota: Quota = rule.parse().unwrap();
            let limiter = limits.limiter("x", Settings::new(quota).mode(mode));
            assert!(limiter.try_acquire(1).await.is_ok(), "{rule}");
            for _ in 0..3 {
                clock.advance(Duration::MAX);
                let permit = limiter.try_acquire(1).await;
                assert!(permit.map_or(true, |permit| permit.at() == last), "{rule}");
                limiter.charge(u64::MAX).await.unwrap();
                assert!(limiter.try_acquire(1).await.is_err(), "{rule}");
            }
        }
    }
}
