//! How limits end: what waiting callers get, what is sent before, and what stays behind.

use std::time::{Duration, Instant};

use ratelimit_runtime::{Limiter, Limits, Quota, Reason, Rejection, StoreErrorKind, rate_limit};
use tests::{limits_file::LimitsFile, proxy::Proxy, redis_server::RedisServer};
use tokio::task::JoinSet;

use crate::{DEADLINE, HOUR, SECOND, limits, quota};

/// On both stores, with nothing configured.
async fn each(server: &RedisServer) -> [Limits; 2] {
    let embedded = Limits::builder().memory().no_limits_file().build().await.unwrap();
    [limits(server, "").await, embedded]
}

/// Starts calls that have to wait.
async fn waiting(limiter: &Limiter, count: usize) -> JoinSet<Result<(), Rejection>> {
    let mut callers = JoinSet::new();
    for _ in 0..count {
        let limiter = limiter.clone();
        callers.spawn(async move { limiter.acquire(1).await.map(drop) });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    callers
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_calls_are_rejected_at_once() {
    let hour = || quota(1, HOUR);
    let rules: [(&str, Quota); 4] = [
        ("window", hour()),
        ("fixed", hour().fixed_window()),
        ("bucket", hour().token_bucket(1).unwrap()),
        ("leaky", hour().leaky_bucket().unwrap()),
    ];
    let server = RedisServer::start();
    for limits in each(&server).await {
        let mut callers = Vec::new();
        for (name, quota) in rules {
            let limiter = limits.limiter(name, quota);
            limiter.acquire(1).await.unwrap();
            callers.push(waiting(&limiter, 50).await);
        }
        let start = Instant::now();
        limits.shutdown().await;
        for callers in callers {
            for result in callers.join_all().await {
                let rejection = result.unwrap_err();
                assert_eq!(rejection.reason(), Reason::StoreUnavailable, "{rejection}");
                assert!(rejection.to_string().ends_with("rate limits are shut down"));
            }
        }
        assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
    }
    // What was reserved for them is free again.
    let another = limits(&server, "").await;
    for (name, quota) in rules {
        let rejection = another.limiter(name, quota).peek(1).await.unwrap_err();
        assert!(rejection.retry_after().unwrap() <= HOUR, "{name}: {rejection}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_to_be_given_back_is_sent_before() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let builder = Limits::builder().redis(proxy.url()).no_limits_file().deadline(2 * SECOND);
    let limits = builder.build().await.unwrap();
    let limiter = limits.limiter("x", quota(100, HOUR));
    let mut permits = Vec::new();
    for _ in 0..20 {
        permits.push(limiter.acquire(2).await.unwrap());
    }
    proxy.delay(Duration::from_millis(100));
    // Calls that are dropped while they are under way.
    let mut dropped = JoinSet::new();
    for _ in 0..10 {
        let limiter = limiter.clone();
        dropped.spawn(async move { limiter.try_acquire(1).await.map(drop) });
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(dropped);
    for permit in permits {
        permit.record(1);
    }
    limits.shutdown().await;
    let another = crate::limits(&server, "").await.limiter("x", quota(100, HOUR));
    assert_eq!(another.available_permits().await.unwrap(), 80, "one of two was used, twenty times");
}

/// Most of them were never charged, although the server was available again.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_outage_granted_is_charged_before() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let builder = Limits::builder().redis(proxy.url()).no_limits_file().deadline(2 * SECOND);
    let limits = builder.build().await.unwrap();
    proxy.cut();
    while limits.health().store.is_ok() {
        // What was sent just before may have been counted, so it is not charged.
        let _ = limits.limiter("first to notice", quota(10, HOUR)).try_acquire(1).await;
    }
    // More than are charged concurrently.
    let names: Vec<_> = (0..100).map(|n| format!("x:{n}")).collect();
    for name in &names {
        assert!(limits.limiter(name, quota(10, HOUR)).acquire(3).await.unwrap().is_degraded());
    }
    proxy.delay(SECOND / 5);
    proxy.listen();
    while limits.health().store.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    limits.shutdown().await;
    let another = crate::limits(&server, "").await;
    for name in &names {
        let limiter = another.limiter(name, quota(10, HOUR));
        assert_eq!(limiter.available_permits().await.unwrap(), 7, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_leaves_the_members_at_once() {
    let server = RedisServer::start();
    let file = LimitsFile::new("limiters: { x: { rate: 5, per: 1s } }\n");
    let builder = Limits::builder().redis(server.url()).limits_file(file.path());
    let leaving = builder.deadline(DEADLINE).build().await.unwrap();
    let staying = limits(&server, "").await;
    let members = || server.cli::<Vec<String>>(&["ZRANGE", "ratelimit:~members", "0", "-1"]);
    let known = async |count: usize| {
        let start = Instant::now();
        while members().len() != count {
            assert!(start.elapsed() < 15 * SECOND, "{:?}", members());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    known(2).await;
    let before = members();
    // It is another one by its limits, and still one process.
    file.write("limiters: { x: { rate: 6, per: 1s } }\n");
    leaving.reload().unwrap();
    let start = Instant::now();
    while members() == before {
        assert!(start.elapsed() < 15 * SECOND, "{before:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    known(2).await;
    leaving.shutdown().await;
    let left = members();
    assert_eq!(left.len(), 1, "{left:?}");
    let keys: Vec<String> = server.cli(&["KEYS", "{ratelimit:~members}:*"]);
    assert_eq!(keys, [format!("{{ratelimit:~members}}:{}", &left[0][8..])]);
    drop(staying);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_after_it_have_their_answers() {
    let server = RedisServer::start();
    for limits in each(&server).await {
        let limiter = limits.limiter("x", quota(5, HOUR));
        let permit = limiter.acquire(1).await.unwrap();
        tokio::join!(limits.shutdown(), limits.shutdown());
        let start = Instant::now();
        limits.shutdown().await;
        assert!(start.elapsed() < DEADLINE / 10, "nothing is left to do");

        assert_eq!(limits.health().store.unwrap_err().kind(), StoreErrorKind::Unavailable);
        limits.reload().unwrap();
        for limiter in [limiter.clone(), limits.limiter("new", quota(5, HOUR))] {
            let rejections = [
                limiter.try_acquire(1).await.unwrap_err(),
                limiter.acquire(1).await.unwrap_err(),
                limiter.acquire_timeout(1, SECOND).await.unwrap_err(),
                limiter.peek(1).await.unwrap_err(),
            ];
            for rejection in rejections {
                assert_eq!(rejection.reason(), Reason::StoreUnavailable, "{rejection}");
            }
            assert!(limiter.try_acquire(0).await.is_ok(), "nothing is needed for that");
        }
        let is_shared = limits.report().store != "memory";
        assert_eq!(limiter.available_permits().await.is_err(), is_shared);
        assert_eq!(permit.give_back().await.is_err(), is_shared);
    }
}

#[rate_limit(key = "jobs", rate = 2, per = "1h")]
async fn job() {}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_cannot_be_rejected_is_counted_locally() {
    let server = RedisServer::start();
    let limits = limits(&server, "").await;
    let shut_down = async {
        job().await;
        limits.shutdown().await;
        job().await;
        tokio::time::timeout(SECOND, job()).await.expect_err("two in an hour");
    };
    limits.scope(shut_down).await;
    let another = crate::limits(&server, "").await.configured("jobs");
    assert_eq!(another.available_permits().await.unwrap(), 1, "the store counted one");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_this_process_counted_before_still_counts() {
    let server = RedisServer::start();
    let per_client = "limiters: { jobs: { mode: per_client } }\n";
    for limits in [
        Limits::builder().memory().no_limits_file().build().await.unwrap(),
        Limits::builder().memory().limits_yaml("instances: 2\n").build().await.unwrap(),
        Limits::builder().memory().limits_yaml(per_client).build().await.unwrap(),
        limits(&server, per_client).await,
    ] {
        let shut_down = async {
            job().await;
            limits.shutdown().await;
            tokio::time::timeout(SECOND, job()).await.expect("one of two is left");
            tokio::time::timeout(SECOND, job()).await.expect_err("two in an hour");
        };
        limits.scope(shut_down).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_delays_it_no_longer_than_a_decision() {
    let server = RedisServer::start();
    let limits = limits(&server, "").await;
    let limiter = limits.limiter("x", quota(5, HOUR));
    let permit = limiter.acquire(1).await.unwrap();
    permit.record(0);
    server.stop();
    drop(permit);
    let start = Instant::now();
    limits.shutdown().await;
    let took = start.elapsed();
    assert!(took >= DEADLINE && took < DEADLINE + DEADLINE / 2, "{took:?}");
    server.cont();
}

/// Callers of a bucket have reservations, which are given back first; that took until the engine had ended.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_calls_are_rejected_although_the_server_hangs() {
    let server = RedisServer::start();
    let bucket = quota(1, HOUR).token_bucket(1).unwrap();
    let mut all = Vec::new();
    for rule in [bucket, quota(1, HOUR).leaky_bucket().unwrap(), quota(1, HOUR)] {
        let limits = limits(&server, "").await;
        let limiter = limits.limiter(&rule.to_string(), rule);
        limiter.acquire(1).await.unwrap();
        let callers = waiting(&limiter, 20).await;
        all.push((limits, callers));
    }
    server.stop();
    for (limits, callers) in all {
        limits.shutdown().await;
        let answers = tokio::time::timeout(5 * SECOND, callers.join_all()).await;
        for answer in answers.expect("each call has its answer") {
            assert_eq!(answer.unwrap_err().reason(), Reason::StoreUnavailable);
        }
    }
    server.cont();
}

#[tokio::test(start_paused = true)]
async fn time_that_stands_still_does_not_delay_it() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    limits.limiter("x", quota(1, HOUR)).acquire(1).await.unwrap();
    limits.shutdown().await;
    assert!(!limits.health().is_ok());
}
