//! What failed calls give back is their own, and nothing once its window is over.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ratelimit_runtime::{Limits, Quota, Rejection, limiter, observe, rate_limit};
use tests::{
    ledger::{Admission, Rates, Rule, excesses},
    place::{Place, at, now, since_1970, window_begins},
};
use tokio::time::{Instant, sleep, timeout};

use super::{SECOND, free, ms};

#[derive(Debug)]
struct Failed;

impl From<Rejection> for Failed {
    fn from(_: Rejection) -> Self {
        Self
    }
}

#[rate_limit(key = "failing", rate = 10, per = "1s", refund_on = "err")]
async fn failing(takes: Duration) -> Result<(), Failed> {
    sleep(takes).await;
    Err(Failed)
}

/// Ten a window, calls of five to eight windows that all fail, for 30 windows.
async fn calls_that_all_fail(place: Place, per_ms: u64) {
    let least = if matches!(place, Place::Embedded) { 290 } else { 150 };
    let rules = [
        ("sliding_window", Rule::SlidingWindow),
        ("fixed_window", Rule::FixedWindow),
        ("leaky_bucket", Rule::LeakyBucket),
        ("token_bucket, burst: 10", Rule::TokenBucket(10)),
        ("token_bucket, burst: 1", Rule::TokenBucket(1)),
    ];
    for (n, (name, rule)) in rules.into_iter().enumerate() {
        let yaml = format!("limiters:\n  failing: {{ per: {per_ms}ms, algorithm: {name} }}\n");
        let builder = place.builder().key_prefix(format!("{n}:")).limits_yaml(yaml);
        let limits = builder.build().await.unwrap();
        let (record, end) = (Arc::new(Mutex::new(Vec::new())), Instant::now() + ms(30 * per_ms));
        let task = |n: u64| {
            let (limits, record) = (limits.clone(), Arc::clone(&record));
            tokio::spawn(async move {
                while Instant::now() < end {
                    let takes = ms(5 * per_ms + (n * 37) % 100 * per_ms * 3 / 100);
                    let (result, told) = limits.scope(observe(failing(takes))).await;
                    result.unwrap_err();
                    let at_ms = since_1970(told[0].as_ref().unwrap().at());
                    let admission = Admission { at_ms, permits: 1, ..Admission::default() };
                    record.lock().unwrap().push(admission);
                }
            })
        };
        let tasks: Vec<_> = (0..100).map(task).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let record = record.lock().unwrap();
        let over = excesses(rule, &Rates::new(10, per_ms), &record);
        assert!(
            over.is_empty(),
            "{name}: {} of {}: {:?}",
            over.len(),
            record.len(),
            &over[..3.min(over.len())]
        );
        assert!(record.len() >= least, "{name}: {} calls", record.len());
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_all_fail_embedded() {
    calls_that_all_fail(Place::Embedded, 1000).await;
}

#[tokio::test]
async fn calls_that_all_fail_redis() {
    let full_length = std::env::var_os("RATELIMIT_FULL_LENGTH").is_some();
    calls_that_all_fail(Place::redis(), if full_length { 1000 } else { 100 }).await;
}

#[rate_limit(key = "first", rate = 10, per = "200ms", wait = "forever")]
#[rate_limit(key = "second", rate = 1, per = "3s", wait = "forever")]
async fn stacked() -> Result<(), Rejection> {
    Ok(())
}

async fn dropped_while_the_second_is_waited_for(place: Place, first_numbers: &str) {
    let yaml = format!("limiters:\n  first: {{ {first_numbers} }}\n  second: {{ rate: 1 }}\n");
    let limits = place.builder().limits_yaml(yaml).build().await.unwrap();
    let code = async {
        let (first, second) = (limiter!("first"), limiter!("second"));
        second.acquire(1).await.unwrap();
        let limits = Limits::current();
        let call = tokio::spawn(async move { limits.scope(stacked()).await });
        sleep(ms(50)).await;
        assert_eq!(free(&first).await, 10, "nothing is held by a call that waits");
        // The window in which the call came is over; its permits are another one's now.
        sleep(ms(400)).await;
        window_begins(&Limits::current(), 200).await;
        first.try_acquire(10).await.unwrap();
        let start = Instant::now();
        call.abort();
        call.await.unwrap_err();
        for _ in 0..5 {
            let left = free(&first).await;
            if start.elapsed() > ms(120) {
                break;
            }
            assert_eq!(left, 0, "another call's permits");
            sleep(ms(10)).await;
        }
    };
    limits.scope(code).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_while_the_second_is_waited_for_embedded() {
    for algorithm in ["sliding_window", "fixed_window"] {
        let numbers = format!("algorithm: {algorithm}");
        dropped_while_the_second_is_waited_for(Place::Embedded, &numbers).await;
    }
}

#[tokio::test]
async fn dropped_while_the_second_is_waited_for_redis() {
    for numbers in ["algorithm: sliding_window", "algorithm: fixed_window", "mode: overall"] {
        dropped_while_the_second_is_waited_for(Place::redis(), numbers).await;
    }
}

/// One limit is counted by the process, the other one by the store.
#[tokio::test]
async fn dropped_while_a_limit_elsewhere_is_waited_for() {
    let place = Place::redis();
    let yaml = "limiters:\n  first: { mode: per_client }\n  second: { rate: 1 }\n";
    let limits = place.builder().limits_yaml(yaml).build().await.unwrap();
    let code = async {
        let (first, second) = (limiter!("first"), limiter!("second"));
        second.acquire(1).await.unwrap();
        let limits = Limits::current();
        let call = tokio::spawn(async move { limits.scope(stacked()).await });
        sleep(ms(300)).await;
        assert_eq!(free(&first).await, 10, "nothing is held by a call that waits");
        first.try_acquire(10).await.unwrap();
        call.abort();
        call.await.unwrap_err();
        assert_eq!(free(&first).await, 0, "another call's permits");
    };
    limits.scope(code).await;
}

/// Permits that are released while others wait: each waiter has its slot to itself.
async fn released_while_others_wait(place: Place) {
    let limits = place.limits().await;
    let quota = Quota::new(10, SECOND).unwrap().leaky_bucket().unwrap();
    let limiter = limits.limiter("spaced", quota);
    let start = Instant::now();
    let callers: Vec<_> = (0..25)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { at(&limiter.acquire(1).await.unwrap()) })
        })
        .collect();
    let mut released = Vec::new();
    for pause in [250, 210, 190, 333, 77] {
        sleep(ms(pause)).await;
        let before = now(&limits).await;
        if limiter.release(5).await.unwrap() > 0 {
            released.push((before, now(&limits).await));
        }
    }
    let mut times = Vec::new();
    for caller in callers {
        times.push(timeout(60 * SECOND, caller).await.unwrap().unwrap());
    }
    times.sort_unstable();
    let short: Vec<_> = times.windows(2).filter(|pair| pair[1] - pair[0] < 99).collect();
    match place {
        Place::Embedded => {
            assert!(short.is_empty(), "{times:?}");
            assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
        }
        // A process that is late has nothing reserved: the slot that has begun can be released then.
        Place::Redis(_) => {
            assert!(short.len() <= released.len(), "{times:?}, released at {released:?}");
            for pair in short {
                let has_begun =
                    |(before, after): &(u64, u64)| pair[0] <= *after && *before <= pair[1];
                assert!(released.iter().any(has_begun), "{pair:?} of {released:?}");
                assert!(pair[0] < pair[1], "{pair:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn released_while_others_wait_embedded() {
    released_while_others_wait(Place::Embedded).await;
}

#[tokio::test]
async fn released_while_others_wait_redis() {
    released_while_others_wait(Place::redis()).await;
}
