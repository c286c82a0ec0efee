//! Buckets that warm up, and callers that leave.

use std::time::{Duration, Instant};

use ratelimit_runtime::{Limits, Quota};
use tests::redis_server::RedisServer;
use tokio::time::sleep;

use super::calls::{SECOND, admitted, carry, ms, on_both, quota, retry_after};

fn warming(rate: u64) -> Quota {
    quota(rate, SECOND).warming_bucket(4 * SECOND).unwrap()
}

/// When a third caller may go after a second one reserved, the numbers changed and it hung up:
/// since the first permit was taken.
async fn third_after_the_second_gave_up(limits: &Limits, name: &str, new: Quota) -> Duration {
    let limiter = limits.limiter(name, warming(2));
    assert!(admitted(limiter.try_acquire(1).await));
    let start = Instant::now();
    let second = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(1).await.map(|_| ()) }
    });
    sleep(ms(100)).await;
    assert!(!second.is_finished(), "it waits");
    carry(&limiter, new).await;
    sleep(ms(50)).await;
    second.abort();
    let _ = second.await;
    sleep(ms(100)).await;
    start.elapsed() + retry_after(&limiter, 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_given_up_after_new_numbers_frees_no_more_than_it_took() {
    // The slot was given back by the new numbers, although it was taken by the old ones.
    let server = RedisServer::start();
    // A cold bucket of 2 a second costs its first two callers about 1.44 s and 1.3 s. What is carried is
    // rounded up to a permit, which is half a second.
    let (first, both) = (1.35, 2.74 + 0.5);
    for limits in on_both(&server, "{}").await {
        for (name, new, faster) in [("alike", warming(2), 1.0), ("faster", warming(4), 2.0)] {
            let third = third_after_the_second_gave_up(&limits, name, new).await;
            let seconds = third.as_secs_f64();
            // What the first one took is kept, if counted by the new numbers; the second is gone or not.
            let (soonest, latest) = (first / faster, both);
            assert!(
                (soonest..latest).contains(&seconds),
                "{name}: a third caller may go after {seconds} s, not within {soonest} to {latest}"
            );
        }
    }
}
