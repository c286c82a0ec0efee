//! Limits that change while the program runs, and processes that disagree.

use ratelimit_runtime::{Event, OnDrift, test_util::ManualClock};
use std::sync::{Arc, Mutex};

use super::*;

fn yaml(limits: &str) -> String {
    format!("limiters:\n  x: {{ on_drift: carry, limits: [{limits}] }}\n")
}

#[tokio::test]
async fn a_limit_that_comes_or_goes_leaves_the_others_as_they_were() {
    let clock = ManualClock::new();
    let file = LimitsFile::new(&yaml("{ rate: 3, per: 1m }, { rate: 10, per: 1h }"));
    let limits = Limits::builder().memory().clock(clock.clone()).limits_file(file.path());
    let limits = limits.build().await.unwrap();
    let limiter = limits.configured("x");
    limiter.try_acquire(3).await.unwrap();

    file.write(&yaml("{ rate: 3, per: 1m }, { rate: 8, per: 30m }, { rate: 10, per: 1h }"));
    limits.reload().unwrap();
    assert_eq!(asked(&limiter).await, refused(&["3 per 1m"], 60_000), "still used up");
    clock.advance(MINUTE);
    assert_eq!(limiter.try_acquire(3).await.unwrap().remaining(), 0);
    clock.advance(MINUTE);
    let decision = limiter.try_acquire(2).await.unwrap();
    assert_eq!(decision.remaining(), 1);
    assert_eq!(limiter.peek(1).await.unwrap().quota().unwrap(), quota(10, HOUR), "8 of 10, 2 of 3");

    file.write(&yaml("{ rate: 3, per: 1m }, { rate: 10, per: 1h }"));
    limits.reload().unwrap();
    clock.advance(MINUTE);
    limiter.try_acquire(2).await.unwrap();
    clock.advance(MINUTE);
    assert_eq!(asked(&limiter).await, refused(&["10 per 1h"], 56 * 60_000));

    file.write("limiters: { x: { rate: 3, per: 1m } }\n");
    limits.reload().unwrap();
    assert_eq!(limiter.quotas().unwrap().to_string(), "3 per 1m");
    assert_eq!(asked(&limiter).await, Ok(2), "the hour is no matter any more");
}

#[tokio::test]
async fn a_bad_list_keeps_the_old_one() {
    let file = LimitsFile::new(&yaml("{ rate: 3, per: 1m }, { rate: 10, per: 1h }"));
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    let limiter = limits.configured("x");
    file.write(&yaml("{ rate: 3, per: 1m }, { rate: 3, per: 1h }"));
    assert!(limits.reload().unwrap_err().to_string().contains("is unreachable"));
    assert_eq!(limiter.quotas().unwrap().to_string(), "3 per 1m and 10 per 1h");
}

/// A process that starts with other numbers for one of the limits.
async fn drift(server: &RedisServer, on_drift: OnDrift) -> (Limits, Vec<String>) {
    let yaml = |hourly: u32| {
        format!(
            "limiters:\n  x: {{ on_drift: {on_drift}, limits: [{{ rate: 3, per: 1m }}, {{ rate: {hourly}, \
             per: 1h }}] }}\n"
        )
    };
    let limits = on_redis(server).limits_yaml(yaml(10)).build().await.unwrap();
    limits.configured("x").try_acquire(3).await.unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let next = on_redis(server).limits_yaml(yaml(20)).on_event(move |event| {
        if let Event::Reconciled { outcome, .. } = event {
            seen.lock().unwrap().push(format!("{outcome:?}"));
        }
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    let next = next.build().await.unwrap();
    let refusal = asked(&next.configured("x")).await;
    assert_eq!(refusal.unwrap_err().0, ["3 per 1m"], "that limit is as it was");
    let events = events.lock().unwrap().clone();
    (next, events)
}

#[tokio::test]
async fn one_limit_that_differs_is_settled_for_itself() {
    for (on_drift, settled, left) in
        [(OnDrift::Carry, "Carried", 17), (OnDrift::Reset, "Reset", 20)]
    {
        let server = RedisServer::start();
        let (limits, events) = drift(&server, on_drift).await;
        assert_eq!(events, [settled]);
        assert_eq!(server.cli::<i64>(&["GET", "{x}:~1h:value"]), left);
        assert_eq!(limits.configured("x").quotas().unwrap().to_string(), "3 per 1m and 20 per 1h");
    }
}
