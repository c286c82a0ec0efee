//! What a readiness probe sees of the store and of the limits file.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ratelimit_runtime::{
    Limiter, Limits, Quota, Reason, Rejection, StoreErrorKind, rate_limit, test_util,
};
use tests::{eventually, limits_file::LimitsFile, redis_server::RedisServer};

use crate::{DEADLINE, SECOND, limits, quota};

/// One call is enough, unless it is only late.
async fn call_until_it_shows(limits: &Limits, limiter: &Limiter) {
    let since = Instant::now();
    while limits.health().is_ok() {
        let _ = limiter.try_acquire(1).await;
        assert!(since.elapsed() < 2 * DEADLINE, "{:?}", limits.health());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_shows_at_the_first_call_and_ends_with_it() {
    let server = RedisServer::start();
    let limits = limits(&server, "").await;
    let limiter = limits.limiter("x", quota(100, SECOND));
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    assert!(limits.health().is_ok());
    server.kill_hard();
    call_until_it_shows(&limits, &limiter).await;
    let health = limits.health();
    assert_eq!(health.store.unwrap_err().kind(), StoreErrorKind::Unavailable);
    assert!(health.limits_file.is_ok());
    server.restart();
    // No call is needed for that.
    eventually("the store is found again", 3 * SECOND, || limits.health().is_ok());
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_shows_without_any_call() {
    let server = RedisServer::start();
    let limits = limits(&server, "").await;
    assert!(limits.health().is_ok());
    server.kill_hard();
    eventually("the outage is noticed", 15 * SECOND, || limits.health().store.is_err());
    server.restart();
    eventually("and its end", 3 * SECOND, || limits.health().is_ok());
}

/// The heartbeat had no connection yet, and that of calls seemed to be open.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_before_the_first_heartbeat_shows_without_any_call() {
    let server = RedisServer::start();
    let limits = limits(&server, "").await;
    server.stop();
    eventually("the outage", 20 * SECOND, || limits.health().store.is_err());
    server.cont();
    eventually("and its end", 5 * SECOND, || limits.health().is_ok());
}

/// A limiter on a server that accepts few connections.
async fn of_few_clients() -> (RedisServer, Limits, Limiter) {
    let server = RedisServer::builder().config("maxclients", "8").start();
    let limits = limits(&server, "").await;
    let limiter = limits.limiter("x", Quota::new(1_000_000, 3600 * SECOND).unwrap());
    (server, limits, limiter)
}

/// Makes calls for a while, all of which have to be decided by the server.
async fn the_server_decides(limits: &Limits, limiter: &Limiter, time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        assert!(!limiter.try_acquire(1).await.unwrap().is_degraded(), "{:?}", limits.health());
        tokio::time::sleep(SECOND / 50).await;
    }
}

/// Opens connections until the server accepts no further one.
fn fill(server: &RedisServer) -> Vec<redis::Connection> {
    let mut others = Vec::new();
    while let Ok(mut other) = server.connect()
        && redis::cmd("PING").exec(&mut other).is_ok()
    {
        others.push(other);
    }
    others
}

/// The error was a broken pipe, or a connection that was reset, with the advice to use TLS.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_is_unavailable_for_the_reason_that_it_gives() {
    let server = RedisServer::builder().config("maxclients", "4").start();
    let _others = fill(&server);
    let limits = limits(&server, "").await;
    for _ in 0..5 {
        let error = limits.health().store.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("max number of clients"), "{error}");
        tokio::time::sleep(SECOND / 10).await;
    }
}

/// Fills a server, which then hangs until its connections are given up, and is found again. Returns the other
/// connections, which keep it full.
async fn hangs_while_full(
    server: &RedisServer,
    limits: &Limits,
    limiter: &Limiter,
) -> Vec<redis::Connection> {
    let others = fill(server);
    server.stop();
    assert!(limiter.try_acquire(1).await.unwrap().is_degraded());
    tokio::time::sleep(8 * DEADLINE).await;
    server.cont();
    eventually("the store is found", 4 * SECOND, || limits.health().is_ok());
    others
}

/// The heartbeat has a connection of its own, which the server refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_accepts_no_further_connection_decides_calls_of_those_it_has() {
    let (server, limits, limiter) = of_few_clients().await;
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    let _others = fill(&server);
    the_server_decides(&limits, &limiter, 5 * SECOND).await;
}

/// The gate closed for all runtimes when one of them could not connect, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_a_full_server_refuses_calls_on_the_connection_of_the_heartbeats() {
    let (server, limits, limiter) = of_few_clients().await;
    eventually("a heartbeat", 15 * SECOND, || server.cli(&["EXISTS", "ratelimit:~members"]));
    let _others = fill(&server);
    let health = limits.health();
    let calling = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for n in 0..20 {
                assert!(!limiter.try_acquire(1).await.unwrap().is_degraded(), "{n}: {health:?}");
            }
        });
    });
    calling.join().unwrap();
    assert!(limits.health().is_ok(), "{:?}", limits.health());
}

/// The process gave up its connections, and the outage lasted as long as the server accepted no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_that_hung_is_found_on_the_connections_it_has() {
    let (server, limits, limiter) = of_few_clients().await;
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    eventually("a heartbeat", 15 * SECOND, || server.cli(&["EXISTS", "ratelimit:~members"]));
    let _others = hangs_while_full(&server, &limits, &limiter).await;
    the_server_decides(&limits, &limiter, SECOND).await;
}

/// The heartbeats had no connection yet, and the server refused them one: the outage lasted until other clients left.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_that_hung_before_the_first_heartbeat_is_found_on_the_connection_of_calls() {
    let (server, limits, limiter) = of_few_clients().await;
    let _others = hangs_while_full(&server, &limits, &limiter).await;
    the_server_decides(&limits, &limiter, 3 * SECOND).await;
}

/// The reply to the probe opened the gate, but its connection was not used again.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_that_hung_is_found_by_a_user_that_may_not_access_the_keys_of_a_call() {
    let rules = "on >secret +@all ~ratelimit-check* ~{ratelimit-check* ~mine* ~{mine*";
    let builder = RedisServer::builder().user("app", rules);
    let server = builder.config("maxclients", "8").start();
    let builder = Limits::builder().redis(server.url_for("app", "secret")).no_limits_file();
    let limits = builder.deadline(DEADLINE).build().await.unwrap();
    let limiter = |name| limits.limiter(name, Quota::new(1_000_000, 3600 * SECOND).unwrap());
    let _others = hangs_while_full(&server, &limits, &limiter("another")).await;
    the_server_decides(&limits, &limiter("mine"), SECOND).await;
}

/// A process without calls stayed healthy, and reported that it does not know the other processes.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_was_changed_shows_without_any_call() {
    let server = RedisServer::builder().user("app", "on >secret +@all ~*").start();
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let builder = Limits::builder().redis(server.url_for("app", "secret")).no_limits_file();
    let builder = builder.on_event(move |event| seen.lock().unwrap().push(event.to_string()));
    let limits = builder.deadline(DEADLINE).build().await.unwrap();
    server.cli::<()>(&["ACL", "SETUSER", "app", "resetpass", ">other"]);
    server.cli::<()>(&["CLIENT", "KILL", "USER", "app"]);
    eventually("it is noticed", 15 * SECOND, || limits.health().store.is_err());
    let error = limits.health().store.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    tokio::time::sleep(3 * SECOND).await;
    server.cli::<()>(&["ACL", "SETUSER", "app", "resetpass", ">secret"]);
    eventually("it is valid again", 3 * SECOND, || limits.health().is_ok());
    eventually("that is an event", 3 * SECOND, || events.lock().unwrap().len() > 1);
    let events = events.lock().unwrap();
    let [down, up] = &events[..] else { panic!("{events:#?}") };
    assert!(down.contains("is unavailable: redis: WRONGPASS"), "{down}");
    assert_eq!(up, "rate limit store is available again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_away_at_startup_shows_at_once() {
    let server = RedisServer::start();
    server.kill_hard();
    let limits = limits(&server, "").await;
    assert!(limits.health().store.is_err());
    server.restart();
    eventually("the store is found", 3 * SECOND, || limits.health().is_ok());
}

/// An operator reads it in the log, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_says_what_to_do() {
    let filler = "x".repeat(2 << 20);
    for (command, advice) in [
        (&["CONFIG", "SET", "maxmemory", "1mb"][..], "; raise the `maxmemory` of the server"),
        (
            &["REPLICAOF", "127.0.0.1", "1"],
            "; if this is not a failover, write the address of the master",
        ),
    ] {
        let server = RedisServer::start();
        let limits = limits(&server, "").await;
        let limiter = limits.limiter("x", quota(100, SECOND));
        let _: () = server.cli(&["SET", "filler", &filler]);
        let _: () = server.cli(command);
        call_until_it_shows(&limits, &limiter).await;
        let error = limits.health().store.unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
        // A probe reports it, too.
        tokio::time::sleep(SECOND).await;
        let error = limits.health().store.unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
        // A program that starts meanwhile was refused: `the Redis user lacks permissions`.
        let late = self::limits(&server, "").await;
        let error = late.health().store.unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
        let _: () = server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        let _: () = server.cli(&["REPLICAOF", "NO", "ONE"]);
        eventually("the store is found", 3 * SECOND, || late.health().is_ok());
    }
}

#[tokio::test]
async fn a_limits_file_that_was_refused_shows_until_a_good_one_is_read() {
    let file = LimitsFile::new("limiters: { x: { rate: 5, per: 1s } }\n");
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    assert!(limits.health().is_ok());
    file.write("limiters: { x: { rate: many, per: 1s } }\n");
    let error = limits.reload().unwrap_err();
    let health = limits.health();
    assert!(!health.is_ok() && health.store.is_ok(), "{health:?}");
    assert_eq!(health.limits_file.unwrap_err().to_string(), error.to_string());
    assert!(limits.configured("x").try_acquire(5).await.is_ok(), "the last good file is in force");
    file.write("limiters: { x: { rate: 6, per: 1s } }\n");
    limits.reload().unwrap();
    assert!(limits.health().is_ok());
}

#[rate_limit(key = "orders:{id}", rate = 1, per = "1s", wait = "none", on_store_error = "reject")]
async fn order(id: u64) -> Result<(), Rejection> {
    let _ = id;
    Ok(())
}

#[tokio::test]
async fn a_store_that_a_test_lets_fail_fails_for_new_keys_too() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let reason = async |id| {
        let outcome = limits.scope(order(id)).await;
        outcome.err().map(|rejection| rejection.reason())
    };
    assert_eq!((reason(1).await, reason(2).await), (None, None));
    test_util::set_store_error(&limits, Some(StoreErrorKind::Timeout));
    for id in 1..=4 {
        assert_eq!(reason(id).await, Some(Reason::StoreUnavailable), "{id}");
    }
    test_util::set_store_error(&limits, None);
    assert_eq!((reason(2).await, reason(5).await), (Some(Reason::Limited), None));
}
