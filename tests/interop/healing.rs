//! What goes wrong with Java alone, and is put right by a process of ours on the same limiter.

use std::time::Duration;

use ratelimit_runtime::{Limiter, Reason};
use tests::{
    proxy::{Proxy, Then},
    redis_server::RedisServer,
    window::assert_kept,
};

use crate::{
    MINUTE, limits, quota,
    redisson::{Client, Redisson},
    state::State,
    unix_ms,
};

on_each_version!(
    what_a_resent_command_of_java_leaked_comes_back,
    an_empty_log_with_a_short_counter_is_healed,
    a_lost_counter_is_counted_from_the_log,
    a_lost_log_does_not_brick_java,
    a_lost_hash_is_written_again,
    what_java_gives_back_is_no_way_round_the_limit,
);

const PER: Duration = Duration::from_millis(400);

/// A limiter of ten that Java made, and a process of ours with the same numbers.
async fn pair(redisson: &Redisson, server: &RedisServer, per: Duration) -> (Client, Limiter) {
    let mut java = redisson.connect(server);
    let set = format!("trySetRate shared OVERALL 10 {}", per.as_millis());
    assert!(java.call::<bool>(&set));
    (java, limits(server, "").await.limiter("shared", quota(10, per)))
}

/// Until a whole window is free for ours, and then until it is for Java.
async fn assert_healed(java: &mut Client, limiter: &Limiter, server: &RedisServer) {
    let whole = limiter.acquire_timeout(10, PER * 3).await;
    assert!(whole.is_ok(), "{whole:?}, {:?}", State::of(server, "shared"));
    State::of(server, "shared").assert_whole();
    assert!(java.call::<bool>("tryAcquire shared 10 2000"));
    State::of(server, "shared").assert_whole();
}

/// Redisson sends a command again whose answer it waits for in vain, and it counts twice then.
async fn what_a_resent_command_of_java_leaked_comes_back(redisson: Redisson) {
    let server = RedisServer::start();
    let (_, limiter) = pair(&redisson, &server, PER).await;
    limiter.try_acquire(1).await.unwrap();
    let proxy = Proxy::start(server.port());
    let mut java = redisson.connect_with(&format!("{} 300 50", proxy.address()));
    assert!(java.call::<bool>("tryAcquire shared 1"));

    // `EVALSHA` since 3.46, `EVAL` before.
    let command = if redisson.since(3, 46) { "EVALSHA" } else { "EVAL" };
    proxy.swallow_replies_to(command, 1, Then::Cut);
    let resent_of = proxy.traffic().count(command);
    assert!(java.call::<bool>("tryAcquire shared 4 5000"));
    assert!(proxy.traffic().count(command) > resent_of + 1, "it was sent again");
    assert!(!State::of(&server, "shared").is_whole(), "it was counted twice");
    assert_healed(&mut java, &limiter, &server).await;
}

async fn an_empty_log_with_a_short_counter_is_healed(redisson: Redisson) {
    let server = RedisServer::start();
    let (mut java, limiter) = pair(&redisson, &server, PER).await;
    let _: () = server.cli(&["SET", "{shared}:value", "5"]);
    assert!(java.fails("tryAcquire shared 6").contains("nil value"), "it would say so for ever");
    assert_healed(&mut java, &limiter, &server).await;
}

async fn a_lost_counter_is_counted_from_the_log(redisson: Redisson) {
    let server = RedisServer::start();
    let (mut java, limiter) = pair(&redisson, &server, MINUTE).await;
    limiter.try_acquire(2).await.unwrap();
    assert!(java.call::<bool>("tryAcquire shared 5"));
    let _: i64 = server.cli(&["DEL", "{shared}:value"]);
    assert_eq!(limiter.available_permits().await.unwrap(), 3);
    let refusal = limiter.try_acquire(4).await.unwrap_err();
    assert_eq!(refusal.reason(), Reason::Limited);
    State::of(&server, "shared").assert_whole();
    assert!(!java.call::<bool>("tryAcquire shared 4"));
    assert!(java.call::<bool>("tryAcquire shared 3"));
}

async fn a_lost_log_does_not_brick_java(redisson: Redisson) {
    let server = RedisServer::start();
    let (mut java, limiter) = pair(&redisson, &server, PER).await;
    limiter.try_acquire(5).await.unwrap();
    assert!(java.call::<bool>("tryAcquire shared 5"));
    let _: i64 = server.cli(&["DEL", "{shared}:permits"]);
    assert!(java.fails("tryAcquire shared 1").contains("nil value"), "it would say so for ever");
    assert!(limiter.try_acquire(1).await.is_err(), "what was lost counts from now");
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    assert_healed(&mut java, &limiter, &server).await;
}

async fn a_lost_hash_is_written_again(redisson: Redisson) {
    let server = RedisServer::start();
    let (mut java, limiter) = pair(&redisson, &server, MINUTE).await;
    limiter.try_acquire(4).await.unwrap();
    assert!(java.call::<bool>("tryAcquire shared 4"));
    let _: i64 = server.cli(&["DEL", "shared"]);
    assert!(java.fails("tryAcquire shared 1").contains("RateLimiter is not initialized"));
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 1, "eight were used");
    assert!(java.call::<bool>("tryAcquire shared 1"));
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    State::of(&server, "shared").assert_whole();
}

/// Redisson's `release`, since 3.52, raises the counter and leaves the log: with Java alone a rate
/// of 10 then admits 15 around the end of a window.
async fn what_java_gives_back_is_no_way_round_the_limit(redisson: Redisson) {
    if !redisson.since(3, 52) {
        return;
    }
    let server = RedisServer::start();
    let (mut java, limiter) = pair(&redisson, &server, PER).await;
    for _ in 0..3 {
        let mut history = Vec::new();
        assert!(java.call::<bool>("tryAcquire shared 10 2000"));
        assert_eq!(java.call::<String>("release shared 5"), "ok");
        tokio::time::sleep(PER * 3 / 4).await;
        // Everything ours can get until a window later.
        let end = tokio::time::Instant::now() + PER * 3 / 2;
        while tokio::time::Instant::now() < end {
            match limiter.try_acquire(1).await {
                Ok(decision) => history.push((unix_ms(decision.at()), 1)),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        assert_kept(&history, PER.as_millis().try_into().unwrap(), 10);
        State::of(&server, "shared").assert_whole();
        tokio::time::sleep(PER).await;
    }
}
