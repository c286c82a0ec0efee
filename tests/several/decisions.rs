//! What one process is told, to the millisecond.

use ratelimit_runtime::{Decision, Mode, Reason, test_util::ManualClock};

use super::*;

async fn trace(limiter: &Limiter, clock: &ManualClock) {
    assert_eq!(asked(limiter).await, Ok(0), "at 0 s");
    assert_eq!(asked(limiter).await, refused(&["1 per 1s"], 1_000), "at 0 s again");
    clock.advance(SECOND);
    assert_eq!(asked(limiter).await, Ok(0), "at 1 s: what was refused took nothing");
    assert_eq!(asked(limiter).await, refused(&["1 per 1s", "2 per 1m"], 59_000));
    clock.advance(SECOND);
    assert_eq!(asked(limiter).await, refused(&["2 per 1m"], 58_000), "at 2 s");
    clock.advance(58 * SECOND);
    assert_eq!(asked(limiter).await, Ok(0), "at 60 s");
}

#[tokio::test]
async fn both_limits_hold_in_whichever_order_they_are_written() {
    let (second, minute) = (quota(1, SECOND), quota(2, MINUTE));
    for quotas in [both(second, minute), both(minute, second)] {
        let clock = ManualClock::new();
        let limits = embedded(&clock).build().await.unwrap();
        trace(&limits.limiter("x", quotas), &clock).await;
    }
    for list in
        ["{ rate: 1, per: 1s }, { rate: 2, per: 1m }", "{ rate: 2, per: 1m }, { rate: 1, per: 1s }"]
    {
        for mode in [Mode::Overall, Mode::PerClient] {
            let clock = ManualClock::new();
            let yaml = format!("limiters: {{ x: {{ limits: [{list}], mode: {mode} }} }}");
            let limits = embedded(&clock).limits_yaml(yaml).build().await.unwrap();
            trace(&limits.configured("x"), &clock).await;
        }
    }
}

#[tokio::test]
async fn a_decision_tells_of_all_limits() {
    let clock = ManualClock::new();
    let limits = embedded(&clock).build().await.unwrap();
    let limiter = limits.limiter("x", both(quota(3, SECOND), quota(10, MINUTE)));
    let tell =
        |told: &Decision| (told.remaining(), told.reset_after(), told.quota().unwrap().to_string());
    let first = limiter.try_acquire(2).await.unwrap();
    assert_eq!(
        tell(&first),
        (1, MINUTE, "3 per 1s".to_owned()),
        "the fewest, the latest, the fullest"
    );
    let parts: Vec<_> = first.parts().iter().map(tell).collect();
    let of_minute = (8, MINUTE, "10 per 1m".to_owned());
    assert_eq!(parts, [(1, SECOND, "3 per 1s".to_owned()), of_minute], "the strictest first");
    for _ in 0..3 {
        clock.advance(SECOND);
        limiter.try_acquire(2).await.unwrap();
    }
    clock.advance(SECOND);
    let last = limiter.peek(1).await.unwrap();
    assert_eq!((last.remaining(), last.quota().unwrap()), (2, quota(10, MINUTE)));
    assert_eq!(limiter.available_permits().await.unwrap(), 2);
    limiter.try_acquire(2).await.unwrap();
    let refusal = limiter.peek(1).await.unwrap_err();
    assert_eq!(refusal.violated(), [quota(10, MINUTE)]);
    assert_eq!(refusal.retry_after(), Some(56 * SECOND));
    let rejection = limiter.try_acquire(3).await.unwrap_err();
    assert_eq!(rejection.violated(), [quota(3, SECOND), quota(10, MINUTE)]);
    let decision = rejection.decision().unwrap();
    assert_eq!(decision.quota(), Some(quota(10, MINUTE)));
    let parts = decision.parts().iter().map(|part| (part.quota().unwrap(), part.retry_after()));
    let waits = [(quota(10, MINUTE), 57), (quota(3, SECOND), 1)];
    assert!(parts.eq(waits.map(|(quota, wait)| (quota, Some(wait * SECOND)))), "{decision:?}");
    assert_eq!(
        rejection.to_string(),
        "rate limit `x` exceeded: 3 per 1s and 10 per 1m, retry after 57s"
    );
}

#[tokio::test]
async fn a_refusal_takes_nothing_of_any_limit() {
    let clock = ManualClock::new();
    let limits = embedded(&clock).build().await.unwrap();
    let limiter = limits.limiter("x", both(quota(1, SECOND), quota(10, MINUTE)));
    limiter.try_acquire(1).await.unwrap();
    for _ in 0..50 {
        assert_eq!(asked(&limiter).await, refused(&["1 per 1s"], 1_000));
    }
    for n in 0..9 {
        clock.advance(SECOND);
        assert!(asked(&limiter).await.is_ok(), "permit {n}");
    }
    clock.advance(SECOND);
    assert_eq!(asked(&limiter).await, refused(&["10 per 1m"], 50_000));
}

#[tokio::test]
async fn more_than_the_smallest_limit_holds_is_refused_at_once() {
    let limits = embedded(&ManualClock::new()).build().await.unwrap();
    let limiter = limits.limiter("x", both(quota(100, MINUTE), quota(10, SECOND)));
    let rejection = limiter.acquire(11).await.unwrap_err();
    assert_eq!(
        (rejection.reason(), rejection.violated().first().copied()),
        (Reason::ExceedsCapacity, Some(quota(10, SECOND)))
    );
    let bucket = quota(1, SECOND).token_bucket(5).unwrap();
    let limiter = limits.limiter("y", both(quota(50, MINUTE), bucket));
    assert_eq!(limiter.acquire(6).await.unwrap_err().violated().first().copied(), Some(bucket));
}

#[tokio::test]
async fn a_call_waits_for_the_longest_of_the_limits() {
    let clock = ManualClock::new();
    let limits = embedded(&clock).build().await.unwrap();
    let limiter = limits.limiter("x", both(quota(1, SECOND), quota(2, MINUTE)));
    limiter.acquire(1).await.unwrap();
    clock.advance(SECOND);
    limiter.acquire(1).await.unwrap();
    let too_long = limiter.acquire_timeout(1, 58 * SECOND).await.unwrap_err();
    assert_eq!(too_long.reason(), Reason::WaitTooLong);
    assert_eq!(too_long.violated(), [quota(1, SECOND), quota(2, MINUTE)]);
    let waiter = tokio::spawn(async move { limiter.acquire_timeout(1, 59 * SECOND).await });
    for _ in 0..58 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        clock.advance(SECOND);
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiter.is_finished());
    clock.advance(SECOND);
    assert!(waiter.await.unwrap().is_ok());
}

#[tokio::test]
async fn algorithms_can_be_mixed() {
    let clock = ManualClock::new();
    let yaml = "limiters:\n  export:\n    limits:\n      - { rate: 10, per: 1s }\n      \
                - { rate: 25, per: 1h, algorithm: fixed_window }\n      \
                - { rate: 5, per: 1s, algorithm: token_bucket, burst: 8 }\n";
    let limits = embedded(&clock).limits_yaml(yaml).build().await.unwrap();
    let limiter = limits.configured("export");
    limiter.try_acquire(8).await.unwrap();
    let bucket = "5 per 1s, token bucket of 8";
    assert_eq!(asked(&limiter).await, refused(&[bucket], 200));
    clock.advance(Duration::from_millis(999));
    limiter.try_acquire(2).await.unwrap();
    assert_eq!(asked(&limiter).await, refused(&["10 per 1s"], 1));
    for _ in 0..3 {
        clock.advance(SECOND);
        limiter.try_acquire(5).await.unwrap();
    }
    clock.advance(SECOND);
    let (violated, wait) = asked(&limiter).await.unwrap_err();
    assert_eq!(violated, ["25 per 1h, fixed window"]);
    assert!(wait > 1_000, "the window ends when an hour does: {wait} ms");
    let report = limits.report().to_string();
    let line =
        format!("\n  limits: 10 per 1s and {bucket} and 25 per 1h, fixed window (limits file)");
    assert!(report.contains(&line), "{report}");
}

#[tokio::test]
async fn limits_that_cannot_hold_together_are_refused() {
    for (yaml, expected) in [
        (
            "limiters: { x: { limits: [{ rate: 10, per: 1s }, { rate: 36000, per: 1h }] } }",
            "limits:1:50: limit `36000 per 1h` is unreachable, because `10 per 1s` never admits more; write \
             at most 35999, or remove it",
        ),
        (
            "limiters: { x: { rate: 5, limits: [{ rate: 10, per: 1s }] } }",
            "limits:1:24: `rate` cannot be combined with `limits`; remove one of them",
        ),
    ] {
        let error = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let nine = (0..9_u32).map(|n| quota(100 + n, SECOND + n * Duration::from_millis(100)));
    assert_eq!(Quotas::new(nine).unwrap_err().to_string(), "`limits` has 9 entries; write 1 to 8");
}
