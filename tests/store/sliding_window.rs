//! What is particular to a sliding window.

use ratelimit_runtime::__private::store::{Algorithm, Outcome, Reconciled, StateKeys, Store};
use tokio::time::Instant;

use super::{Process, Time, config};

/// Keeps what goes beyond the promises of every rule.
pub(super) async fn run<S: Store>(store: &S, prefix: &str, time: &Time) {
    let since = Instant::now();
    let process = |name: &str, rate, per_ms| {
        let keys = StateKeys::new(format!("{prefix}{name}"));
        let config = config(Algorithm::SlidingWindow, rate, per_ms);
        Process { store, keys, config, revision: 0, since }
    };
    never_grants_more_than_the_rate(&process("window", 3, 400), time).await;
    // Long enough for all refused calls, also on a busy machine.
    counts_costs_and_refuses_without_a_trace(&process("costs", 10, 4000), time).await;
    decides_many_in_order_at_once(&process("batch", 10, 500), time).await;
    gives_the_oldest_permits_back(&process("release", 10, 600), time).await;
}

async fn never_grants_more_than_the_rate<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    for left in [2, 1, 0] {
        let reply = limiter.acquire(1).await;
        assert_eq!((reply.outcome, reply.remaining), (Outcome::Granted, left), "within the rate");
    }
    let refused = limiter.acquire(1).await;
    assert_eq!(refused.outcome, Outcome::Refused, "beyond the rate");
    assert!(
        (1..=400).contains(&refused.retry_after_ms),
        "the wait lies within the window: {refused:?}"
    );
    assert!(
        refused.reset_after_ms >= refused.retry_after_ms,
        "full after something is free: {refused:?}"
    );
    if let Time::Manual(_) = time {
        time.pass(refused.retry_after_ms - 1).await;
        assert_eq!(
            limiter.acquire(1).await.outcome,
            Outcome::Refused,
            "a tick before the wait is over"
        );
        time.pass(1).await;
    } else {
        time.pass(refused.retry_after_ms).await;
    }
    assert_eq!(limiter.acquire(1).await.outcome, Outcome::Granted, "when the wait is over");
}

async fn counts_costs_and_refuses_without_a_trace<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    assert_eq!(limiter.acquire(6).await.remaining, 4, "a call takes what it costs");
    for _ in 0..50 {
        assert_eq!(limiter.acquire(5).await.outcome, Outcome::Refused, "5 of 4");
    }
    assert_eq!(limiter.acquire(4).await.outcome, Outcome::Granted, "refused calls took nothing");
    let refused = limiter.acquire(10).await;
    time.pass(refused.retry_after_ms).await;
    assert_eq!(limiter.acquire(10).await.outcome, Outcome::Granted, "the wait was for all ten");
}

async fn decides_many_in_order_at_once<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    use Outcome::{ExceedsCapacity, Granted, Refused};
    assert!(limiter.acquire_all(&[]).await.is_empty(), "nothing for nobody");
    let replies = limiter.acquire_all(&[1, 1, 5, 11, 4, 3, 3]).await;
    let told: Vec<_> = replies.iter().map(|reply| (reply.outcome, reply.remaining)).collect();
    assert_eq!(
        told,
        [
            (Granted, 9),
            (Granted, 8),
            (Granted, 3),
            (ExceedsCapacity, 10),
            (Refused, 3),
            (Granted, 0),
            (Refused, 0)
        ],
        "first come, first served, and what fits is granted"
    );
    assert_eq!(replies[0].reconciled, Some(Reconciled::Created));
    assert!(replies[1..].iter().all(|reply| reply.reconciled.is_none()), "it is told once");
    for reply in &replies {
        assert_eq!((reply.now_ms, reply.reset_after_ms), (replies[0].now_ms, 500), "one instant");
        let wait = if reply.outcome == ExceedsCapacity { 0 } else { 500 };
        assert_eq!(reply.retry_after_ms, wait, "until it could be granted again: {reply:?}");
    }
    time.pass(500).await;
    let replies = limiter.acquire_all(&[4, 3]).await;
    assert_eq!(replies[0].outcome, Granted, "when the wait is over");
    assert_eq!(replies[0].retry_after_ms, 500, "3 are left of 4");
    assert_eq!((replies[1].remaining, replies[1].retry_after_ms), (3, 0), "and 3 could go again");
    assert_eq!(limiter.acquire(4).await.outcome, Refused);
    assert_eq!(limiter.release(u32::MAX).await, 7, "what was granted together is one use");
}

async fn gives_the_oldest_permits_back<S: Store>(limiter: &Process<'_, S>, time: &Time) {
    assert_eq!(limiter.release(3).await, 0, "nobody configured it yet");
    limiter.acquire(4).await;
    time.pass(100).await;
    limiter.acquire(6).await;
    assert_eq!(limiter.release(5).await, 5, "as many as asked for");
    assert_eq!(limiter.peek(1).await.remaining, 5, "they are free");
    limiter.acquire(5).await;
    let refused = limiter.acquire(1).await;
    assert!(refused.retry_after_ms > 300, "the youngest ones are still in use: {refused:?}");
    assert_eq!(limiter.release(u32::MAX).await, 10, "no more than are in use");
    assert_eq!(limiter.acquire(10).await.outcome, Outcome::Granted, "and no more than the rate");
    assert_eq!(limiter.acquire(1).await.outcome, Outcome::Refused, "can be taken again");
}
