//! Waits that have to succeed, and answers that have to come in time.

use std::time::Instant;

use ratelimit_runtime::{Limiter, test_util::ManualClock};
use tests::{proxy::Proxy, redis_server::RedisServer};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::calls::{
    SECOND, admitted, admitted_of, embedded, embedded_at, every_rule, ms, on_both, on_redis,
    on_redis_within, quota, reason,
};

fn waits(limiter: &Limiter) -> JoinHandle<bool> {
    let limiter = limiter.clone();
    tokio::spawn(async move { admitted(limiter.acquire(1).await) })
}

/// A first permit, then waits of exactly one window, each of which may last as long as it takes.
async fn waits_of_a_whole_window(rule: &str, limiter: Limiter) {
    limiter.acquire(1).await.unwrap();
    for n in 1..=3 {
        let refused = reason(limiter.acquire_timeout(1, SECOND).await);
        assert_eq!(refused, None, "{rule}: wait {n}");
    }
}

#[tokio::test(start_paused = true)]
async fn three_waits_of_the_whole_window_in_a_row_succeed() {
    // A wait that ends in its very last millisecond counted as too long.
    let limits = embedded("{}").await;
    for (rule, quota) in every_rule(1, SECOND) {
        waits_of_a_whole_window(rule, limits.limiter(rule, quota)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_waits_of_the_whole_window_in_a_row_succeed_on_redis() {
    // As above; and the time a reply took counted against the caller twice.
    let server = RedisServer::start();
    let limits = on_redis(server.url(), "{}").await;
    let waits = every_rule(1, SECOND).map(|(rule, quota)| {
        tokio::spawn(waits_of_a_whole_window(rule, limits.limiter(rule, quota)))
    });
    for wait in waits {
        wait.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_window_after_the_permit_was_taken_a_wait_of_a_little_more_succeeds() {
    // The estimate of a wait began a whole window from now, whenever the permits were taken.
    let server = RedisServer::start();
    for limits in on_both(&server, "{}").await {
        let limiters =
            every_rule(1, SECOND).map(|(rule, quota)| (rule, limits.limiter(rule, quota)));
        for (_, limiter) in &limiters {
            limiter.acquire(1).await.unwrap();
        }
        sleep(ms(500)).await;
        let waits = limiters.map(|(rule, limiter)| {
            let wait = async move { (rule, reason(limiter.acquire_timeout(1, ms(600)).await)) };
            tokio::spawn(wait)
        });
        for wait in waits {
            let (rule, refused) = wait.await.unwrap();
            // A fixed window may have begun in between, which makes the wait longer.
            assert!(refused.is_none() || rule == "fixed window", "{rule}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn a_wait_behind_another_caller_is_judged_by_what_is_free_by_then() {
    // As above, for a caller that finds another one waiting.
    let clock = ManualClock::new();
    let limits = embedded_at(&clock, "{}").await;
    let limiter = limits.limiter("x", quota(2, SECOND));
    assert_eq!(admitted_of(&limiter, 2).await, 2);
    clock.advance(ms(500));
    let waits = [(); 2].map(|()| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire_timeout(1, ms(600)).await })
    });
    for _ in 0..60 {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        clock.advance(ms(10));
    }
    for wait in waits {
        assert!(admitted(wait.await.unwrap()), "both permits are free after 500 ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_queues_behind_a_slow_answer_is_answered_by_its_own_deadline() {
    // The deadline of a queued caller began when its own call went out, and not when it came.
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = on_redis_within(ms(500), proxy.url(), "{}").await;
    let limiter = limits.limiter("x", quota(100, SECOND));
    assert!(admitted(limiter.try_acquire(1).await));
    proxy.delay(ms(400));
    let timed = |limiter: Limiter| {
        tokio::spawn(async move {
            let start = Instant::now();
            assert!(admitted(limiter.try_acquire(1).await), "either store or policy has permits");
            start.elapsed()
        })
    };
    let first = timed(limiter.clone());
    sleep(ms(20)).await;
    let second = timed(limiter);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert!(first >= ms(400), "answers take 400 ms, not {first:?}");
    assert!(second < ms(600), "the second caller was answered after {second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_waiting_caller_a_wait_is_judged_by_when_permits_are_free() {
    // By when the queue queries the store again, which is a tenth of that.
    let server = RedisServer::start();
    for limits in on_both(&server, "{}").await {
        let limiter = limits.limiter("x", quota(2, 600 * SECOND));
        assert_eq!(admitted_of(&limiter, 2).await, 2);
        let head = waits(&limiter);
        sleep(ms(100)).await;
        let polled = limiter.try_acquire(1).await.unwrap_err();
        let timed = limiter.acquire_timeout(1, 300 * SECOND);
        let timed = timeout(10 * SECOND, timed).await.expect("at once").unwrap_err();
        for rejection in [polled, timed] {
            assert!(rejection.retry_after() > Some(500 * SECOND), "{rejection}");
        }
        head.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_in_the_queue_notices_a_change_by_another_process() {
    // It waited for as long as the permit of the first one counted.
    let server = RedisServer::start();
    let (here, there) = (on_redis(server.url(), "{}").await, on_redis(server.url(), "{}").await);
    let [limiter, other] = [&here, &there].map(|limits| limits.limiter("x", quota(1, 10 * SECOND)));
    limiter.acquire(1).await.unwrap();
    let first = waits(&limiter);
    sleep(ms(100)).await;
    let second = waits(&limiter);
    sleep(ms(100)).await;
    limiter.release(1).await.unwrap();
    assert!(timeout(5 * SECOND, first).await.expect("a permit is free").unwrap());
    other.delete().await.unwrap();
    assert!(timeout(5 * SECOND, second).await.expect("another one is").unwrap());
}

#[tokio::test]
async fn of_calls_that_join_in_any_order_those_without_a_chance_are_rejected_at_once() {
    // The last one was only judged by the callers that had joined the queue before it.
    let server = RedisServer::start();
    let limits = on_redis(server.url(), "{}").await;
    let limiter = limits.limiter("x", quota(1, SECOND));
    for round in 0..4 {
        let call = || async {
            let start = Instant::now();
            (admitted(limiter.acquire_timeout(1, ms(1500)).await), start.elapsed())
        };
        let (first, second, third) = tokio::join!(call(), call(), call());
        let mut rejected = [first, second, third].into_iter().filter(|(admitted, _)| !admitted);
        let (_, after) = rejected.next().expect("the third permit is free after 2 s");
        assert!(after < ms(500), "rejected after {after:?} in round {round}");
        assert_eq!(rejected.next(), None, "in round {round}");
        limiter.delete().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_begins_as_a_test_moves_the_clock_ends() {
    // The wait was measured from the time after the move, so that only a second one ended it.
    let clock = ManualClock::new();
    let limits = embedded_at(&clock, "{}").await;
    let limiter = limits.limiter("x", quota(1, SECOND));
    limiter.try_acquire(1).await.unwrap();
    for n in 0..3_000 {
        let waiting = limiter.clone();
        let waiting = tokio::spawn(async move { waiting.acquire(1).await.map(drop) });
        (0..n % 300).for_each(|_| std::hint::spin_loop());
        clock.advance(SECOND);
        let granted = tokio::time::timeout(10 * SECOND, waiting).await;
        granted.expect("it needs no other move").unwrap().unwrap();
    }
}
