//! Limiters that expire when nobody uses them: the keep-alive, and that it is one for both.

use std::time::Duration;

use tests::redis_server::RedisServer;

use crate::{limits, quota, redisson::Redisson, state::State};

on_each_version!(
    javas_calls_renew_that_of_rust,
    rusts_calls_renew_that_of_java,
    that_of_java_outlives_a_start_of_rust,
    expired_limiters_leave_nothing_behind,
);

async fn javas_calls_renew_that_of_rust(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let yaml = "limiters:\n  shared: { rate: 100, per: 100ms, keep_alive: 1s }\n";
    let limiter = limits(&server, yaml).await.configured("shared");
    limiter.try_acquire(1).await.unwrap();
    assert_eq!(State::of(&server, "shared").config["keepAliveTime"], "1000");
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(java.call::<bool>("tryAcquire shared 1") || !redisson.since(3, 38));
        if !redisson.since(3, 38) {
            // It knows of no keep-alive, and only copies what is left; ours renews.
            limiter.try_acquire(1).await.unwrap();
        }
        for key in ["shared", "{shared}:value", "{shared}:permits"] {
            let left: i64 = server.cli(&["PTTL", key]);
            assert!(left > 700 && left <= 1000, "{key}: {left}");
        }
    }
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let keys: Vec<String> = server.cli(&["KEYS", "*"]);
    assert_eq!(keys, [""; 0]);
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining, 99, "made anew");
}

/// Redisson has a keep-alive since 3.38.
async fn rusts_calls_renew_that_of_java(redisson: Redisson) {
    if !redisson.since(3, 38) {
        return;
    }
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 100 100 1000"));
    let limiter = limits(&server, "").await.configured("shared");
    for _ in 0..4 {
        limiter.try_acquire(1).await.unwrap();
        for key in ["shared", "{shared}:value", "{shared}:permits"] {
            let left: i64 = server.cli(&["PTTL", key]);
            assert!(left > 800 && left <= 1000, "{key}: {left}");
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    assert!(limiter.set_keep_alive(None).await.unwrap());
    assert!(java.call::<bool>("tryAcquire shared 1"));
    assert_eq!(java.call::<i64>("remainTimeToLive shared"), -1);
    assert!(limiter.set_keep_alive(Some(Duration::from_secs(30))).await.unwrap());
    assert!(java.call::<bool>("tryAcquire shared 1"));
    let left: i64 = java.call("remainTimeToLive shared");
    assert!(left > 29_000 && left <= 30_000, "{left}");
}

/// A process of ours that has the numbers Java set touches nothing else. Without its keep-alive the
/// hash would expire under a Java that uses it.
async fn that_of_java_outlives_a_start_of_rust(redisson: Redisson) {
    if !redisson.since(3, 38) {
        return;
    }
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 100 100 600"));
    let limits = limits(&server, "").await;
    let limiter = limits.limiter("shared", quota(100, Duration::from_millis(100)));
    limiter.try_acquire(1).await.unwrap();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert!(java.call::<bool>("tryAcquire shared 1"));
    }
    assert_eq!(State::of(&server, "shared").config["keepAliveTime"], "600");
}

/// Java's `availablePermits` writes a counter without an expiry, or takes it away.
async fn expired_limiters_leave_nothing_behind(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let yaml = "limiters:\n  shared: { rate: 5, per: 100ms, keep_alive: 500ms }\n";
    let limiter = limits(&server, yaml).await.configured("shared");
    limiter.try_acquire(1).await.unwrap();
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert_eq!(java.call::<u64>("availablePermits shared"), 5);
    assert_eq!(server.cli::<i64>(&["PTTL", "{shared}:value"]), -1, "Java took it away");
    limiter.try_acquire(1).await.unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    let keys: Vec<String> = server.cli(&["KEYS", "*"]);
    assert_eq!(keys, [""; 0]);

    // A counter that outlived its limiter does not cut the next one short.
    limiter.try_acquire(4).await.unwrap();
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert_eq!(java.call::<u64>("availablePermits shared"), 5);
    tokio::time::sleep(Duration::from_millis(700)).await;
    let yaml = "limiters:\n  shared: { rate: 50, per: 1m }\n";
    let renewed = limits(&server, yaml).await.configured("shared");
    assert_eq!(renewed.try_acquire(1).await.unwrap().remaining, 49);
    assert!(java.call::<bool>("tryAcquire shared 49"));
    State::of(&server, "shared").assert_whole();
}
