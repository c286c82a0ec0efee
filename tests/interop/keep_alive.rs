//! Limiters that expire when nobody uses them: the keep-alive, and that it is one for both.

use std::time::{Duration, Instant};

use tests::redis_server::RedisServer;

use crate::{limits, quota, redisson::Redisson, state::State};

on_each_version!(
    javas_calls_renew_that_of_rust,
    rusts_calls_renew_that_of_java,
    that_of_java_outlives_a_start_of_rust,
    a_start_of_rust_lets_no_limiter_of_java_expire,
    expired_limiters_leave_nothing_behind,
);

/// What a limiter with a keep-alive of a second has left after a grant, in milliseconds: Java sets
/// that, ours a quarter more.
const BY_JAVA: i64 = 1_000;
const BY_RUST: i64 = 1_250;

/// Whether all three keys have what was set since this instant, less what passed, and expire together.
#[track_caller]
fn assert_left(server: &RedisServer, set_ms: i64, since: Instant) {
    let [left, others @ ..] = left_ms(server);
    let passed = i64::try_from(since.elapsed().as_millis()).unwrap() + 1;
    // A server may read its clock for each key, and be held up while it runs the script.
    let together = others.iter().all(|other| (*other - left).abs() <= passed);
    assert!(together, "hash {left} ms, counter and log {others:?}");
    assert!(left <= set_ms && left >= set_ms - passed, "{left} of {set_ms} ms, {passed} passed");
}

/// What the hash, the counter and the log have left, at one instant.
fn left_ms(server: &RedisServer) -> [i64; 3] {
    let script = "return { redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2]), \
                  redis.call('PTTL', KEYS[3]) }";
    server.cli(&["EVAL", script, "3", "shared", "{shared}:value", "{shared}:permits"])
}

async fn javas_calls_renew_that_of_rust(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let yaml = "limiters:\n  shared: { rate: 100, per: 100ms, keep_alive: 1s }\n";
    let limiter = limits(&server, yaml).await.configured("shared");
    let mut used = Instant::now();
    limiter.try_acquire(1).await.unwrap();
    assert_eq!(State::of(&server, "shared").config["keepAliveTime"], "1000");
    assert_left(&server, BY_RUST, used);
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let now = Instant::now();
        assert!(java.call::<bool>("tryAcquire shared 1"));
        if redisson.since(3, 38) {
            assert_left(&server, BY_JAVA, now);
        } else {
            // It knows of no keep-alive, and only copies what is left.
            assert_left(&server, BY_RUST, used);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        used = Instant::now();
        limiter.try_acquire(1).await.unwrap();
        // Less than it says was left.
        assert_left(&server, BY_RUST, used);
    }
    let mut kept_ms = BY_RUST;
    if redisson.since(3, 38) {
        assert!(java.call::<bool>("tryAcquire shared 1"));
        kept_ms = BY_JAVA;
    }
    tokio::time::sleep(Duration::from_millis(u64::try_from(kept_ms).unwrap())).await;
    assert_eq!(server.limiter_keys(), [""; 0]);
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 99, "made anew");
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
        let set = Instant::now();
        limiter.try_acquire(1).await.unwrap();
        assert_left(&server, BY_RUST, set);
        // As long as there is what it says, it stays.
        tokio::time::sleep(Duration::from_millis(50)).await;
        limiter.try_acquire(1).await.unwrap();
        assert_left(&server, BY_RUST, set);
        tokio::time::sleep(Duration::from_millis(350)).await;
    }
    let used = Instant::now();
    assert!(java.call::<bool>("tryAcquire shared 1"));
    assert_left(&server, BY_JAVA, used);

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

/// The limits file gave a limiter that Java made for good a keep-alive of a minute. After a longer
/// time without calls, Java's next call failed, because the limiter was not initialized.
async fn a_start_of_rust_lets_no_limiter_of_java_expire(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 100 100"));
    let yaml = "limiters:\n  shared: { rate: 100, per: 100ms }\n";
    limits(&server, yaml).await.configured("shared").try_acquire(1).await.unwrap();
    assert_eq!(java.call::<i64>("remainTimeToLive shared"), -1);
    assert!(java.call::<bool>("tryAcquire shared 1"));
    assert_eq!(left_ms(&server), [-1; 3]);
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
    assert_eq!(server.limiter_keys(), [""; 0]);

    // A counter that outlived its limiter does not cut the next one short.
    limiter.try_acquire(4).await.unwrap();
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert_eq!(java.call::<u64>("availablePermits shared"), 5);
    tokio::time::sleep(Duration::from_millis(700)).await;
    let yaml = "limiters:\n  shared: { rate: 50, per: 1m }\n";
    let renewed = limits(&server, yaml).await.configured("shared");
    assert_eq!(renewed.try_acquire(1).await.unwrap().remaining(), 49);
    assert!(java.call::<bool>("tryAcquire shared 49"));
    State::of(&server, "shared").assert_whole();
}
