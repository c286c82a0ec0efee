//! How many calls may wait for one limiter, who is turned away, and what ends a wait early.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{
    future::{Future, poll_fn},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use ratelimit_runtime::{Limiter, Limits, Permit, Quota, Reason, Rejection, rate_limit};
use tests::{limits_file::LimitsFile, redis_server::RedisServer};
use tokio::{sync::Barrier, task::JoinHandle, time::timeout};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

async fn embedded(yaml: &str) -> Limits {
    Limits::builder().memory().limits_yaml(yaml).build().await.unwrap()
}

type Waiter = JoinHandle<Result<Permit, Rejection>>;

/// Starts a call that has to wait, and lets it find its place.
async fn waits(limiter: &Limiter) -> Waiter {
    let limiter = limiter.clone();
    let waiter = tokio::spawn(async move { limiter.acquire(1).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiter.is_finished(), "it waits");
    waiter
}

async fn turned_away(limiter: &Limiter) -> Rejection {
    let rejection = limiter.acquire(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::QueueFull, "{rejection}");
    rejection
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_after_the_last_place_is_turned_away_at_once() {
    let limits = embedded("limiters:\n  x: { rate: 1, per: 1s, max_waiters: 2 }\n").await;
    let limiter = limits.configured("x");
    limiter.acquire(1).await.unwrap();
    let (first, second) = (waits(&limiter).await, waits(&limiter).await);
    let start = tokio::time::Instant::now();
    let rejection = turned_away(&limiter).await;
    assert_eq!(rejection.retry_after(), Some(Duration::from_millis(960)), "when a place is free");
    assert!(
        rejection.to_string().starts_with("too many calls are waiting for rate limit `x`, retry"),
        "{rejection}"
    );
    let patient = limiter.acquire_timeout(1, HOUR).await.unwrap_err();
    assert_eq!(patient.reason(), Reason::QueueFull);
    // Who never waits is not told of those who do.
    assert_eq!(limiter.try_acquire(1).await.unwrap_err().reason(), Reason::Limited);
    assert_eq!(start.elapsed(), Duration::ZERO);
    for waiter in [first, second] {
        waiter.await.unwrap().unwrap();
    }
    limiter.acquire(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_learns_when_it_would_be_its_turn() {
    let limits = embedded("limiters:\n  x: { rate: 2, per: 1s }\n").await;
    let limiter = limits.configured("x");
    limiter.acquire(2).await.unwrap();
    let _waiters = [waits(&limiter).await, waits(&limiter).await, waits(&limiter).await];
    // Two go after a second and one after two, with the first permit of this call.
    for (permits, ms) in [(1, 1_940), (2, 2_940)] {
        let rejection = limiter.try_acquire(permits).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::Limited);
        assert_eq!(rejection.retry_after(), Some(Duration::from_millis(ms)), "{permits} permits");
    }
}

#[rate_limit(key = "large", rate = 5, per = "1h", permits = 3)]
async fn large() {}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_greater_quota_is_not_rejected() {
    let limits = embedded("").await;
    let count = || {
        let report = limits.report();
        let large = report.limiters.iter().find(|limiter| limiter.key == "large").unwrap();
        (large.allowed, large.rejected)
    };
    limits
        .scope(async {
            large().await;
            let limiter = limits.configured("large");
            limiter.set_rate(Quota::new(2, HOUR).unwrap()).await.unwrap();
            let call = limits.scope(large());
            assert!(timeout(2 * SECOND, call).await.is_err(), "it waits");
            assert_eq!(count(), (1, 0), "a call that cannot return a rejection is never rejected");
            limiter.set_rate(Quota::new(5, HOUR).unwrap()).await.unwrap();
            large().await;
            assert_eq!(count(), (2, 0));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn with_no_places_nobody_waits() {
    let limits = embedded("limiters:\n  x: { rate: 2, per: 1s, max_waiters: 0 }\n").await;
    let limiter = limits.configured("x");
    for _ in 0..2 {
        assert!(limiter.acquire(1).await.is_ok(), "a free permit needs no place");
    }
    assert_eq!(turned_away(&limiter).await.retry_after(), Some(SECOND), "when permits are free");
    tokio::time::sleep(SECOND).await;
    limiter.acquire(2).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_leaves_its_place_to_another() {
    let limits = embedded("limiters:\n  x: { rate: 1, per: 1h, max_waiters: 2 }\n").await;
    let limiter = limits.configured("x");
    limiter.acquire(1).await.unwrap();
    let (head, tail) = (waits(&limiter).await, waits(&limiter).await);
    for waiter in [tail, head] {
        turned_away(&limiter).await;
        waiter.abort();
        assert!(waiter.await.is_err());
        waits(&limiter).await;
    }
    turned_away(&limiter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_wait_than_may_however_many_come_at_once() {
    let server = RedisServer::start();
    let yaml = "deadline: 20s\nlimiters:\n  x: { rate: 1, per: 1h, max_waiters: 10 }\n";
    let builder = Limits::builder().redis(server.url()).limits_yaml(yaml);
    let limiter = builder.build().await.unwrap().configured("x");
    limiter.acquire(1).await.unwrap();
    let full = Arc::new(AtomicU32::new(0));
    let mut calls = Vec::new();
    for _ in 0..200 {
        let (limiter, full) = (limiter.clone(), Arc::clone(&full));
        calls.push(tokio::spawn(async move {
            let rejection = limiter.acquire(1).await.unwrap_err();
            assert_eq!(rejection.reason(), Reason::QueueFull);
            full.fetch_add(1, Ordering::Relaxed);
        }));
    }
    tests::eventually("all are sorted", 10 * SECOND, || {
        calls.iter().filter(|call| !call.is_finished()).count() == 10
    });
    assert_eq!(full.load(Ordering::Relaxed), 190);
    calls.iter().for_each(JoinHandle::abort);
}

#[rate_limit(key = "user:{id}", rate = 1, per = "1h", wait = "1h")]
async fn by_user(id: u64) -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_of_a_function_leaves_its_place_to_another() {
    let limits = embedded("default: { max_waiters: 1 }\n").await;
    limits
        .scope(async {
            by_user(3).await.unwrap();
            assert!(timeout(SECOND, by_user(3)).await.is_err(), "it waits");
            timeout(2 * HOUR, by_user(3)).await.expect("a permit is free").expect("it had a place");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn overrides_prefixes_and_the_default_say_it_and_the_report_tells_who_did() {
    let yaml = "default: { rate: 1, per: 1h, max_waiters: 1 }\nlimiters:\n  \"user:{id}\":\n    \
                overrides:\n      - { key: \"user:1\", max_waiters: 0 }\n  own: { max_waiters: 7 }\n\
                prefixes:\n  - { prefix: \"job:\", max_waiters: 0 }\n";
    let limits = embedded(yaml).await;
    let (job, other) = (limits.configured("job:1"), limits.configured("other"));
    for limiter in [&job, &other] {
        limiter.acquire(1).await.unwrap();
    }
    turned_away(&job).await;
    waits(&other).await;
    turned_away(&other).await;
    limits
        .scope(async {
            for user in [1, 2] {
                by_user(user).await.unwrap();
            }
            assert_eq!(by_user(1).await.unwrap_err().reason(), Reason::QueueFull);
            assert!(timeout(SECOND, by_user(2)).await.is_err(), "it waits");
        })
        .await;
    let report = limits.report().to_string();
    for line in ["max_waiters: 7 (limits file)", "max_waiters: 1 (default)"] {
        assert!(report.contains(line), "{line} in\n{report}");
    }
    let report = embedded("limiters:\n  x: { rate: 1, per: 1s }\n").await.report();
    let report = format!("{report:#}");
    assert!(report.contains("max_waiters: 10000 (built in)"), "{report}");
}

#[tokio::test]
async fn a_limiter_whose_numbers_only_the_store_has_goes_by_its_prefix_in_the_rest() {
    let server = RedisServer::start();
    let _: i64 = server.cli(&["HSET", "java:1", "rate", "1", "interval", "3600000", "type", "0"]);
    let yaml = "prefixes:\n  - { prefix: \"java:\", max_waiters: 0 }\n";
    let limits = Limits::builder().redis(server.url()).limits_yaml(yaml);
    let limiter = limits.deadline(20 * SECOND).build().await.unwrap().configured("java:1");
    limiter.acquire(1).await.unwrap();
    turned_away(&limiter).await;
}

#[tokio::test]
async fn a_reload_makes_room_and_sends_nobody_away() {
    let places = |n: u32| format!("limiters:\n  x: {{ rate: 1, per: 1h, max_waiters: {n} }}\n");
    let file = LimitsFile::new(&places(1));
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    let limiter = limits.configured("x");
    limiter.acquire(1).await.unwrap();
    let first = waits(&limiter).await;
    turned_away(&limiter).await;

    file.write(&places(2));
    limits.reload().unwrap();
    let second = waits(&limiter).await;
    turned_away(&limiter).await;

    file.write(&places(0));
    limits.reload().unwrap();
    turned_away(&limiter).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!first.is_finished() && !second.is_finished(), "who waits keeps waiting");
    limiter.release(1).await.unwrap();
    first.await.unwrap().unwrap();
    second.abort();
}

#[tokio::test]
async fn a_reload_lets_those_who_wait_look_again() {
    let server = RedisServer::start();
    let yaml =
        |settings: &str| format!("deadline: 20s\nlimiters:\n  x: {{ per: 1h, {settings} }}\n");
    for redis in [false, true] {
        let file = LimitsFile::new(&yaml("rate: 1"));
        let builder = Limits::builder().limits_file(file.path());
        let builder = if redis { builder.redis(server.url()) } else { builder.memory() };
        let limits = builder.build().await.unwrap();
        let limiter = limits.configured("x");
        limiter.acquire(1).await.unwrap();
        let (first, second) = (waits(&limiter).await, waits(&limiter).await);
        file.write(&yaml("rate: 2, on_drift: carry"));
        limits.reload().unwrap();
        timeout(10 * SECOND, first).await.expect("there is a permit now").unwrap().unwrap();
        assert!(!second.is_finished(), "for one of them");
        file.write(&yaml("rate: 1, enabled: false"));
        limits.reload().unwrap();
        timeout(10 * SECOND, second).await.expect("nobody is limited now").unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_reload_between_a_call_and_its_queue_ends_the_wait() {
    let yaml = |settings: &str| format!("limiters:\n  x: {{ rate: 1, per: 1h{settings} }}\n");
    let file = LimitsFile::new(&yaml(""));
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    let limiter = limits.configured("x");
    limiter.acquire(1).await.unwrap();
    let mut call = Box::pin(limiter.acquire(1));
    let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
    assert!(polled.is_pending(), "it waits");
    // The queue runs in a task of this thread, which has not started yet.
    file.write(&yaml(", enabled: false"));
    limits.reload().unwrap();
    timeout(10 * SECOND, call).await.expect("the limiter is disabled").unwrap();
}

/// As an operator's program or a Java service does.
async fn change(server: &RedisServer, limiter: &Limiter, algorithm: &str, change: &str) {
    match change {
        "set_rate" => {
            let faster = Quota::new(100, 20 * SECOND).unwrap();
            let faster = match algorithm {
                "token_bucket" => faster.token_bucket(100),
                "leaky_bucket" => faster.leaky_bucket(),
                "fixed_window" => Ok(faster.fixed_window()),
                _ => Ok(faster),
            };
            limiter.set_rate(faster.unwrap()).await.unwrap();
        }
        "delete" => assert!(limiter.delete().await.unwrap()),
        _ => drop(server.cli::<String>(&["FLUSHALL"])),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_another_process_ends_a_wait_too() {
    let server = RedisServer::start();
    // One flush is of all four, so it comes when all of them wait.
    let all_wait = Barrier::new(4);
    let wait = async |algorithm: &'static str, kind: &'static str| {
        let yaml = format!(
            "deadline: 20s\nlimiters:\n  x: {{ rate: 1, per: 20s, algorithm: {algorithm} }}\n"
        );
        let limits = async || {
            let builder = Limits::builder().redis(server.url()).limits_yaml(yaml.clone());
            builder.key_prefix(format!("{algorithm}:{kind}:")).build().await.unwrap()
        };
        let (here, there) = (limits().await, limits().await);
        let (limiter, other) = (here.configured("x"), there.configured("x"));
        limiter.acquire(1).await.unwrap();
        let waiter = waits(&limiter).await;
        all_wait.wait().await;
        change(&server, &other, algorithm, kind).await;
        let waited = timeout(10 * SECOND, waiter).await;
        waited.unwrap_or_else(|_| panic!("{algorithm}, {kind}")).unwrap().unwrap();
    };
    for kind in ["set_rate", "delete", "flushed"] {
        let wait = |algorithm| wait(algorithm, kind);
        tokio::join!(
            wait("sliding_window"),
            wait("fixed_window"),
            wait("token_bucket"),
            wait("leaky_bucket")
        );
    }
}

#[rate_limit(key = "bounded", rate = 1, per = "1h", wait = "1h")]
async fn bounded() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "enduring", rate = 1, per = "300ms")]
async fn enduring() {}

#[tokio::test]
async fn an_annotated_function_answers_with_the_rejection_if_it_can() {
    let limits = embedded("limiters:\n  bounded: { max_waiters: 0 }\n").await;
    limits
        .scope(async {
            bounded().await.unwrap();
            assert_eq!(bounded().await.unwrap_err().reason(), Reason::QueueFull);
        })
        .await;
}

#[tokio::test]
async fn a_function_that_cannot_refuse_waits_outside_a_full_queue() {
    let limits = embedded("limiters:\n  enduring: { max_waiters: 1 }\n").await;
    let start = Instant::now();
    limits
        .scope(async {
            let calls = async { tokio::join!(enduring(), enduring(), enduring(), enduring()) };
            timeout(20 * SECOND, calls).await.expect("everybody is answered");
        })
        .await;
    assert!(start.elapsed() >= Duration::from_millis(900), "and nobody before its time");
    let builder = Limits::builder().memory();
    let builder = builder.limits_yaml("limiters:\n  enduring: { max_waiters: 0 }\n");
    let error = builder.build().await.unwrap_err().to_string();
    assert!(
        error.ends_with(
            "`enduring` cannot reject calls, but limits:2:28 sets `max_waiters: 0`; give its attribute a \
             `wait` with an end, or let 1 call or more wait"
        ),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hears_late_of_its_refusal_is_served_before_later_ones() {
    let server = RedisServer::start();
    let limits = Limits::builder().redis(server.url()).no_limits_file().deadline(SECOND);
    let limits = limits.build().await.unwrap();
    let limiter = limits.limiter("late", Quota::new(1, SECOND / 2).unwrap());
    limiter.try_acquire(1).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let call = |name| {
        let (limiter, order) = (limiter.clone(), Arc::clone(&order));
        Box::pin(async move {
            limiter.acquire(1).await.unwrap();
            order.lock().unwrap().push(name);
        })
    };
    // It asks the server, and is not polled again for a while.
    let mut first = call("first");
    let polled = poll_fn(|context| Poll::Ready(first.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    tokio::time::sleep(SECOND / 20).await;
    limiter.try_acquire(1).await.unwrap_err();
    let second = tokio::spawn(call("second"));
    tokio::time::sleep(SECOND / 20).await;
    first.await;
    second.await.unwrap();
    assert_eq!(*order.lock().unwrap(), ["first", "second"]);
}
