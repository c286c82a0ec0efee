//! Slow networks: calls are pipelined, and what was granted to callers that are gone comes back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ratelimit_runtime::{Limiter, Limits, Reason};
use redis::{AsyncConnectionConfig, aio::MultiplexedConnection};
use tests::{proxy::Proxy, redis_server::RedisServer};
use tokio::{task::JoinSet, time::timeout};

use crate::world::{ALONE, DEADLINE, HOUR, SECOND, ms, patient_limits, quota};

/// For how long callers gather behind a call.
const GATHER: Duration = ms(2);

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
    const ROUNDS: u64 = 10;
    /// What a busy machine adds to a round trip is a small part of it.
    const DEADLINE: Duration = Duration::from_secs(4);

    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = Limits::builder().redis(proxy.url()).no_limits_file().deadline(DEADLINE);
    let limiter = limits.build().await.unwrap().limiter("far", quota(10_000, HOUR));
    limiter.try_acquire(1).await.unwrap();
    proxy.delay(DEADLINE * 6 / 10);
    let mut callers = JoinSet::new();
    for _ in 0..ROUNDS {
        for _ in 0..64 {
            let limiter = limiter.clone();
            callers.spawn(async move { limiter.try_acquire(1).await.unwrap().is_degraded() });
        }
        tokio::time::sleep(ms(100)).await;
    }
    let degraded = callers.join_all().await.into_iter().filter(|degraded| *degraded).count();
    assert_eq!(degraded, 0, "of 64 in each of {ROUNDS} rounds");
    proxy.restore();
    settles_at(&limiter, 10_000 - 1 - 64 * ROUNDS).await;
}

/// How long a command without a limiter takes.
async fn round_trip(mut connection: MultiplexedConnection) -> Duration {
    let start = Instant::now();
    redis::cmd("PING").exec_async(&mut connection).await.unwrap();
    start.elapsed()
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort();
    took[took.len() / 2]
}

#[tokio::test]
async fn callers_that_come_all_the_time_share_calls_behind_a_slow_network() {
    const CALLERS: usize = 5_000;
    /// Callers that come at once.
    const AT_ONCE: usize = 10;

    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = patient_limits(&proxy.url()).await.limiter("far", quota(10_000, HOUR));
    limiter.try_acquire(1).await.unwrap();
    let client = redis::Client::open(proxy.url()).unwrap();
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(20 * SECOND));
    let connection = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
    proxy.delay(DEADLINE * 6 / 10);
    proxy.reset_traffic();
    let (mut callers, mut others) = (JoinSet::new(), JoinSet::new());
    let start = Instant::now();
    while callers.len() < CALLERS {
        for _ in 0..AT_ONCE {
            let limiter = limiter.clone();
            callers.spawn(async move {
                let start = Instant::now();
                assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
                start.elapsed()
            });
        }
        others.spawn(round_trip(connection.clone()));
        tokio::time::sleep(ms(1)).await;
    }
    let came_for = start.elapsed();
    let (took, round_trip) = (median(callers.join_all().await), median(others.join_all().await));
    // The time in which callers gather, and no second round trip.
    assert!(took < round_trip + ms(15), "{took:?}, and {round_trip:?} without a limiter");
    let calls = u128::from(proxy.traffic().count("EVALSHA"));
    let most = came_for.as_millis() / GATHER.as_millis() + 1;
    assert!(calls <= most, "{calls} calls for {CALLERS} callers in {came_for:?}");
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
    let limiter = patient_limits(&proxy.url()).await.limiter("gone", quota(100, HOUR));
    limiter.try_acquire(1).await.unwrap();
    proxy.delay(ms(50));
    for left in (0..99).rev() {
        proxy.reset_traffic();
        let started = Instant::now();
        let first = start(&limiter, 1).await;
        let gone = start(&limiter, 50).await;
        gone.abort();
        let _ = gone.await;
        // Later on a busy machine, and then its call was sent.
        let is_in_time = started.elapsed() < GATHER;
        assert_eq!(first.await.unwrap(), Some(left));
        tokio::time::sleep(ms(200)).await;
        if is_in_time {
            assert_eq!(proxy.traffic().count("EVALSHA"), 1, "for the first one alone");
            assert_eq!(limiter.available_permits().await.unwrap(), left);
            return;
        }
        settles_at(&limiter, left).await;
    }
    panic!("a caller was never gone within {GATHER:?}");
}

#[tokio::test]
async fn what_callers_that_are_gone_were_granted_is_given_back() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = patient_limits(&proxy.url()).await.limiter("gone", quota(100, HOUR));
    limiter.try_acquire(1).await.unwrap();
    proxy.blackhole_replies();
    for permits in [10, 20, 30] {
        let call = limiter.try_acquire(permits);
        assert!(timeout(ms(10), call).await.is_err(), "no reply arrives");
    }
    proxy.restore();
    settles_at(&limiter, 99).await;
}

#[tokio::test]
async fn what_arrives_and_is_never_looked_at_is_given_back() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let limiter = patient_limits(&server.url()).await.limiter("unread", quota(100, HOUR));
    limiter.try_acquire(1).await.unwrap();
    let mut call = Box::pin(limiter.try_acquire(40));
    assert!(tests::poll_once(call.as_mut()).is_none());
    tokio::time::sleep(ms(50)).await;
    drop(call);
    settles_at(&limiter, 99).await;
}
