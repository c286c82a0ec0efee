//! Slow networks: calls are pipelined, and what was granted to callers that are gone comes back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ratelimit_runtime::{Limiter, Limits, Reason};
use tests::{proxy::Proxy, redis_server::RedisServer};
use tokio::{task::JoinSet, time::timeout};

use crate::world::{ALONE, DEADLINE, HOUR, SECOND, limits, ms, quota};

/// Starts a call and lets it come as far as it gets.
async fn start(limiter: &Limiter, permits: u64) -> tokio::task::JoinHandle<Option<u64>> {
    let limiter = limiter.clone();
    let call = tokio::spawn(async move {
        limiter.try_acquire(permits).await.ok().map(|decision| decision.remaining())
    });
    tokio::task::yield_now().await;
    call
}

async fn settles_at(limiter: &Limiter, expected: u64) {
    let start = Instant::now();
    loop {
        match limiter.available_permits().await {
            Ok(available) if available == expected => return,
            other => assert!(start.elapsed() < 3 * SECOND, "{other:?} and not {expected}"),
        }
        tokio::time::sleep(ms(10)).await;
    }
}

#[tokio::test]
async fn a_round_trip_below_the_deadline_loses_nothing() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = limits(&proxy.url(), "").await.limiter("far", quota(10_000, HOUR));
    limiter.try_acquire(1).await.unwrap();
    proxy.delay(DEADLINE * 6 / 10);
    for round in 0..10 {
        let mut callers = JoinSet::new();
        for _ in 0..64 {
            let limiter = limiter.clone();
            callers.spawn(async move { limiter.try_acquire(1).await.unwrap().is_degraded() });
        }
        let degraded = callers.join_all().await.into_iter().filter(|degraded| *degraded).count();
        assert_eq!(degraded, 0, "of 64 in round {round}");
    }
    settles_at(&limiter, 10_000 - 641).await;
}

#[tokio::test]
async fn callers_that_come_all_the_time_share_calls_behind_a_slow_network() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = limits(&proxy.url(), "").await.limiter("far", quota(10_000, HOUR));
    limiter.try_acquire(1).await.unwrap();
    let delay = DEADLINE * 6 / 10;
    proxy.delay(delay);
    proxy.reset_traffic();
    let mut callers = JoinSet::new();
    for _ in 0..1_000 {
        let limiter = limiter.clone();
        callers.spawn(async move {
            let start = Instant::now();
            assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
            start.elapsed()
        });
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let mut took = callers.join_all().await;
    took.sort();
    // A round trip, and 2 ms in which callers gather; what is above is the machine's.
    assert!(took[500] < delay + ms(15), "{:?}", took[500]);
    let calls = proxy.traffic().count("EVALSHA");
    assert!(calls <= 700, "{calls} calls for 1000 callers");
}

#[tokio::test]
async fn the_whole_rate_is_used_behind_a_slow_network() {
    const WINDOWS: u32 = 5;

    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let yaml = "limiters:\n  far: { rate: 50, per: 1s, on_store_error: reject }\n";
    // Longer than any reply takes on a busy machine.
    let builder = Limits::builder().redis(proxy.url()).limits_yaml(yaml).deadline(20 * SECOND);
    let limits = builder.build().await.unwrap();
    let (limiter, other) = (limits.configured("far"), limits.limiter("other", quota(100, SECOND)));
    for limiter in [&limiter, &other] {
        limiter.try_acquire(1).await.unwrap();
    }
    proxy.delay(DEADLINE * 7 / 10);
    tokio::time::sleep(SECOND).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..32 {
        let (limiter, over) = (limiter.clone(), Arc::clone(&over));
        callers.spawn(async move {
            let mut admitted = 0;
            loop {
                let result = limiter.try_acquire(1).await;
                if over.load(Ordering::Relaxed) {
                    return admitted;
                }
                match result {
                    Ok(_) => admitted += 1,
                    Err(rejection) => {
                        assert_eq!(rejection.reason(), Reason::Limited, "{rejection}");
                        tokio::time::sleep(ms(5)).await;
                    }
                }
            }
        });
    }
    // The first window's permits are free at once; each one after it takes a second and a round trip.
    for _ in 0..WINDOWS {
        tokio::time::sleep(SECOND).await;
        other.try_acquire(1).await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let admitted: u32 = callers.join_all().await.into_iter().sum();
    assert!(admitted >= 49 * WINDOWS, "{admitted} in {WINDOWS} windows");
}

#[tokio::test]
async fn callers_that_are_gone_before_their_call_is_sent_are_not_asked_for() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = limits(&proxy.url(), "").await.limiter("gone", quota(100, HOUR));
    limiter.try_acquire(1).await.unwrap();
    // Longer than a busy machine takes to start both.
    proxy.delay(ms(150));
    proxy.reset_traffic();
    let first = start(&limiter, 1).await;
    let gone = start(&limiter, 50).await;
    gone.abort();
    let _ = gone.await;
    assert_eq!(first.await.unwrap(), Some(98));
    tokio::time::sleep(ms(200)).await;
    assert_eq!(proxy.traffic().count("EVALSHA"), 1, "nobody was left to ask for");
    assert_eq!(limiter.available_permits().await.unwrap(), 98);
}

#[tokio::test]
async fn what_callers_that_are_gone_were_granted_is_given_back() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = limits(&proxy.url(), "").await.limiter("gone", quota(100, HOUR));
    limiter.try_acquire(1).await.unwrap();
    proxy.delay(ms(30));
    for permits in [10, 20, 30] {
        let call = limiter.try_acquire(permits);
        assert!(timeout(ms(10), call).await.is_err(), "it takes 30 ms");
    }
    settles_at(&limiter, 99).await;
}

#[tokio::test]
async fn what_arrives_and_is_never_looked_at_is_given_back() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let limiter = limits(&server.url(), "").await.limiter("unread", quota(100, HOUR));
    limiter.try_acquire(1).await.unwrap();
    let mut call = Box::pin(limiter.try_acquire(40));
    assert!(crate::world::poll_once(call.as_mut()).is_none());
    tokio::time::sleep(ms(50)).await;
    drop(call);
    settles_at(&limiter, 99).await;
}
