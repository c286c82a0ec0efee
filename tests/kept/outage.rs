//! What a process may grant while the store is away.

use std::time::{Duration, Instant};

use ratelimit_runtime::{Limiter, Limits};
use tests::{eventually, limits_file::LimitsFile, proxy::Proxy, redis_server::RedisServer};
use tokio::task::JoinSet;

use super::calls::{DEADLINE, HOUR, admitted_of, on_redis, open, quota};

/// A process of four that lost its server.
async fn one_of_four(server: &RedisServer) -> Limits {
    let builder = Limits::builder().redis(server.url()).no_limits_file();
    let limits = builder.deadline(DEADLINE).instances(4).build().await.unwrap();
    server.kill_hard();
    limits
}

#[tokio::test(flavor = "multi_thread")]
async fn the_local_share_of_a_bucket_of_eight_among_four_processes_holds_two() {
    // The rate was divided among the processes, what a bucket holds was not.
    let limits = one_of_four(&RedisServer::start()).await;
    let limiter = limits.limiter("x", quota(4, HOUR).token_bucket(8).unwrap());
    assert_eq!(admitted_of(&limiter, 20).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn four_processes_without_a_store_admit_one_quota_together() {
    // As above, for every rule: eight among four are two for each.
    let server = RedisServer::start();
    let limits = one_of_four(&server).await;
    let day = Duration::from_secs(86_400);
    for (name, quota) in [
        ("sliding", quota(8, day)),
        ("fixed", quota(8, day).fixed_window()),
        ("bucket", quota(8, day).token_bucket(8).unwrap()),
    ] {
        assert_eq!(admitted_of(&limits.limiter(name, quota), 20).await, 2, "{name}");
    }
}

const NOBODY: &str = "limiters:\n  \
    bucket: { rate: 0, per: 1s, algorithm: token_bucket, burst: 5 }\n  \
    own: { rate: 0, per: 1s, algorithm: token_bucket, burst: 5, mode: per_client }\n  \
    window: { rate: 0, per: 1s }\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_of_0_admits_nobody_while_the_store_is_away() {
    // A share is rounded to one permit at least, also that of a limiter that admits nobody.
    let server = RedisServer::start();
    let limits = on_redis(server.url(), NOBODY).await;
    server.kill_hard();
    for name in ["bucket", "own", "window"] {
        let limiter = limits.configured(name);
        for _ in 0..5 {
            assert!(limiter.try_acquire(1).await.is_err(), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_that_becomes_0_admits_nobody_from_then_on() {
    // As below, for a limiter that admitted callers before.
    let server = RedisServer::start();
    for builder in [Limits::builder().memory(), Limits::builder().redis(server.url())] {
        let with = |rate| {
            let numbers = format!("rate: {rate}, per: 10ms, algorithm: token_bucket, burst: 5");
            let own = format!("{{ {numbers}, mode: per_client }}");
            format!("limiters:\n  shared: {{ {numbers} }}\n  own: {own}\n")
        };
        let file = LimitsFile::new(&with(5));
        let limits = open(&file, builder).await;
        let limiters = ["shared", "own"].map(|name| limits.configured(name));
        for limiter in &limiters {
            assert!(admitted_of(limiter, 5).await > 0);
        }
        file.write(&with(0));
        limits.reload().unwrap();
        for limiter in &limiters {
            for _ in 0..5 {
                assert!(limiter.try_acquire(1).await.is_err(), "{limiter:?}");
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_of_0_admits_nobody_whatever_its_burst_on_both_stores() {
    // What a bucket holds was handed out although nothing ever flows into it.
    let server = RedisServer::start();
    for limits in super::calls::on_both(&server, NOBODY).await {
        for name in ["bucket", "own", "window"] {
            let limiter = limits.configured(name);
            for _ in 0..5 {
                assert!(limiter.try_acquire(1).await.is_err(), "{name}");
            }
            assert!(limiter.acquire_timeout(1, Duration::from_millis(50)).await.is_err(), "{name}");
        }
    }
}

/// The share began as if all permits of a window had just been taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_spaces_its_permits_continues_without_a_store() {
    let server = RedisServer::start();
    let limits = on_redis(server.url(), "").await;
    let tenth = || quota(36_000, HOUR);
    let limiters = [
        limits.limiter("leaky", tenth().leaky_bucket().unwrap()),
        limits.limiter("warm", tenth().warming_bucket(Duration::from_secs(1)).unwrap()),
    ];
    for limiter in &limiters {
        limiter.acquire(1).await.unwrap();
    }
    server.kill_hard();
    for limiter in &limiters {
        let start = Instant::now();
        for _ in 0..4 {
            let permit = limiter.acquire_timeout(1, Duration::from_secs(5)).await.unwrap();
            assert!(permit.is_degraded(), "{limiter:?}");
        }
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(250), "{limiter:?} spaces them: {took:?}");
    }
}

/// Without a store, one permit of a bucket that spaces them became all that its share holds, or none.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_spaces_its_permits_is_charged_what_it_granted_without_a_store() {
    let hundred = || quota(100, HOUR);
    let all = [
        ("leaky", hundred().leaky_bucket().unwrap()),
        ("warm", hundred().warming_bucket(Duration::from_secs(3600)).unwrap()),
    ];
    for granted_before in [0, 1] {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let limits = on_redis(proxy.url(), "").await;
        let reset = async |limiter: Limiter| {
            let rejection = limiter.try_acquire(1).await.expect_err("it spaces them");
            rejection.decision().unwrap().reset_after().as_secs()
        };
        let mut expected = Vec::new();
        for (name, quota) in all {
            let (limiter, twin) = (limits.limiter(name, quota), limits.limiter("twin", quota));
            twin.charge(granted_before + 1).await.unwrap();
            expected.push(reset(twin.clone()).await);
            twin.delete().await.unwrap();
            limiter.charge(granted_before).await.unwrap();
        }
        proxy.cut();
        for (name, quota) in all {
            assert_eq!(limits.limiter(name, quota).charge(1).await.unwrap().taken, 1, "{name}");
        }
        proxy.restore();
        eventually("the server is found", Duration::from_secs(5), || limits.health().store.is_ok());
        for ((name, quota), expected) in all.into_iter().zip(expected) {
            // A call that queries the store waits for the charge.
            let found = reset(limits.limiter(name, quota)).await;
            assert!(found.abs_diff(expected) < 10, "{name}: {found} s of {expected} s");
        }
    }
}

/// Limiters that shared a call with it were rejected as well, because it could not be charged.
#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_that_cannot_be_charged_after_an_outage_fails_alone() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = on_redis(proxy.url(), "").await;
    let names = (0..20).map(|n| format!("x:{n}"));
    let limiters: Vec<_> = names.map(|name| limits.limiter(&name, quota(1000, HOUR))).collect();
    proxy.cut();
    for limiter in &limiters {
        limiter.try_acquire(1).await.unwrap();
    }
    let _: String = server.cli(&["SET", "x:0", "other data"]);
    proxy.restore();
    eventually("the server is found", Duration::from_secs(5), || limits.health().store.is_ok());
    for _ in 0..20 {
        let mut calls = JoinSet::new();
        for (n, limiter) in limiters.iter().cloned().enumerate() {
            for limiter in [limiter.clone(), limiter] {
                calls.spawn(async move { (n, limiter.try_acquire(1).await.map(drop)) });
            }
        }
        for (n, result) in calls.join_all().await {
            assert_eq!(result.is_err(), n == 0, "{:?}: {result:?}", limiters[n]);
        }
    }
}
