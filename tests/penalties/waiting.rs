//! Calls behind callers that wait, while a penalty blocks the key.

use tokio::{
    task::{JoinHandle, yield_now},
    time::timeout,
};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const BLOCK: Duration = Duration::from_secs(600);

/// One permit a minute, and after one window a block of ten.
fn minutely() -> Settings {
    Settings::new(Quota::per_minute(1)).penalty(Penalty::new(1, BLOCK))
}

async fn waits(limiter: &Limiter, at_most: Duration) -> JoinHandle<Result<(), Rejection>> {
    let limiter = limiter.clone();
    let waiter = tokio::spawn(async move { limiter.acquire_timeout(1, at_most).await.map(drop) });
    for _ in 0..20 {
        yield_now().await;
    }
    assert!(!waiter.is_finished(), "it waits");
    waiter
}

#[tokio::test]
async fn calls_behind_a_queue_hear_of_the_block_and_its_end() {
    let (limits, time) = test_util::limits();
    let limiter = limits.limiter("login:eve", minutely());
    limiter.acquire(1).await.unwrap();
    let patient = waits(&limiter, 2 * BLOCK).await;
    let hasty = waits(&limiter, 150 * SECOND).await;
    // This rejection begins the block, at the end of which the first caller goes, and after two minutes the next one.
    for _ in 0..2 {
        let rejection = limiter.try_acquire(1).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::Blocked);
        let after = rejection.retry_after().unwrap();
        assert!((BLOCK..=BLOCK + 120 * SECOND).contains(&after), "{after:?}");
    }
    let rejection = timeout(20 * SECOND, hasty).await.expect("it has no chance").unwrap();
    let rejection = rejection.unwrap_err();
    assert_eq!((rejection.reason(), rejection.retry_after()), (Reason::Blocked, Some(BLOCK)));
    let mut behind = vec![limiter.try_acquire(1).await.unwrap_err()];
    behind.push(limiter.acquire_timeout(1, BLOCK).await.unwrap_err());
    behind.push(
        limiter.and(limits.limiter("free", Quota::per_minute(9))).try_acquire(1).await.unwrap_err(),
    );
    let limiter = limits.limiter("login:eve", minutely());
    behind.push(limiter.peek(1).await.unwrap_err());
    for rejection in behind {
        assert_eq!(rejection.reason(), Reason::Blocked, "{rejection}");
        assert_eq!(rejection.retry_after(), Some(BLOCK + 60 * SECOND), "{rejection}");
    }

    // A permit is free, but the key is blocked.
    time.advance(60 * SECOND);
    yield_now().await;
    let rejection = limiter.try_acquire(1).await.unwrap_err();
    assert_eq!((rejection.reason(), rejection.retry_after()), (Reason::Blocked, Some(BLOCK)));
    assert!(!patient.is_finished());
    limiter.lift_penalty().await.unwrap();
    patient.await.unwrap().unwrap();
    let rejection = limiter.acquire_timeout(1, SECOND).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::Blocked, "again, by this rejection");
}

#[tokio::test]
async fn a_block_that_was_lifted_or_deleted_is_over_for_the_calls_behind_a_queue() {
    for place in [Place::Embedded, Place::redis()] {
        let limits = place.limits().await;
        for delete in [false, true] {
            let limiter = limits.limiter(&format!("login:{delete}"), minutely());
            limiter.acquire(1).await.unwrap();
            let first = waits(&limiter, 2 * BLOCK).await;
            for _ in 0..3 {
                let rejection = limiter.try_acquire(1).await.unwrap_err();
                assert_eq!(rejection.reason(), Reason::Blocked);
                assert!(rejection.retry_after().unwrap() > BLOCK - 20 * SECOND, "{rejection}");
            }
            if delete {
                assert!(limiter.delete().await.unwrap());
                timeout(20 * SECOND, first).await.expect("a new limiter").unwrap().unwrap();
            } else {
                assert!(limiter.lift_penalty().await.unwrap());
                let rejection = limiter.peek(1).await.unwrap_err();
                assert_eq!(rejection.reason(), Reason::Limited);
                assert!(rejection.retry_after().unwrap() <= 120 * SECOND, "{rejection}");
                first.abort();
            }
        }
    }
}

/// The store decides on these calls: its quota may have been raised.
#[tokio::test]
async fn a_call_for_more_than_the_capacity_is_not_one_for_the_end_of_a_block() {
    let quota = Quota::per_minute(2);
    let (bucket, spaced) = (quota.token_bucket(2).unwrap(), quota.leaky_bucket().unwrap());
    for place in [Place::Embedded, Place::redis()] {
        let limits = place.limits().await;
        for (n, quota) in [quota, bucket, quota.fixed_window(), spaced].into_iter().enumerate() {
            let settings = Settings::new(quota).penalty(Penalty::new(1, BLOCK));
            let blocked = async |call: &str| {
                let limiter = limits.limiter(&format!("{call}:{n}"), settings.clone());
                limiter.try_acquire(2).await.unwrap();
                assert_eq!(reason(limiter.try_acquire(1).await), Some(Reason::Blocked));
                limiter
            };
            let free = limits.limiter("free", Quota::per_minute(9));
            let (both, waiting) = (blocked("both").await.and(free), blocked("waiting").await);
            let waits = timeout(20 * SECOND, waiting.acquire_timeout(3, 2 * BLOCK));
            let rejections = [
                blocked("polling").await.try_acquire(3).await.unwrap_err(),
                blocked("peeking").await.peek(3).await.unwrap_err(),
                both.try_acquire(3).await.unwrap_err(),
                waits.await.expect("it does not wait").unwrap_err(),
            ];
            for rejection in rejections {
                assert_eq!(rejection.reason(), Reason::ExceedsCapacity, "{rejection}, {quota}");
                assert_eq!(rejection.retry_after(), None, "{rejection}, {quota}");
            }
        }
    }
}

#[tokio::test]
async fn while_the_store_is_away_no_call_behind_a_queue_is_blocked() {
    let server = RedisServer::start();
    let builder = Limits::builder().redis(server.url()).no_limits_file().deadline(ms(500));
    let limits = builder.build().await.unwrap();
    let limiter = limits.limiter("login:eve", minutely());
    limiter.acquire(1).await.unwrap();
    let first = waits(&limiter, 2 * BLOCK).await;
    assert_eq!(reason(limiter.try_acquire(1).await), Some(Reason::Blocked));
    server.kill_hard();
    let started = Instant::now();
    while reason(limiter.try_acquire(1).await) != Some(Reason::Limited) {
        assert!(started.elapsed() < 20 * SECOND, "the block outlasts its store");
        tokio::time::sleep(ms(20)).await;
    }
    first.abort();
}

/// The quota was lowered below what they wait for. The store decides a few times at most, not as long as the block lasts.
#[tokio::test]
async fn a_queued_call_that_exceeds_a_lowered_capacity_does_not_wait_for_the_end_of_a_block() {
    let server = RedisServer::start();
    let limits = Limits::builder().redis(server.url()).no_limits_file().build().await.unwrap();
    let quota = Quota::per_minute(2);
    let (bucket, spaced) = (quota.token_bucket(2).unwrap(), quota.fixed_window());
    for (n, quota) in [quota, bucket, spaced].into_iter().enumerate() {
        let settings = Settings::new(quota).penalty(Penalty::new(1, BLOCK));
        let limiter = limits.limiter(&format!("lowered:{n}"), settings);
        limiter.try_acquire(2).await.unwrap();
        let waiting = limiter.clone();
        let waiting =
            tokio::spawn(async move { waiting.acquire_timeout(2, 2 * BLOCK).await.map(drop) });
        tokio::time::sleep(SECOND / 5).await;
        assert_eq!(reason(limiter.try_acquire(1).await), Some(Reason::Blocked));
        limiter.set_rate(Quota::new(1, quota.per()).unwrap()).await.unwrap();
        let before = server.calls("evalsha");
        tokio::time::sleep(SECOND).await;
        let calls = server.calls("evalsha") - before;
        assert!(calls < 30, "{calls} calls, {quota}");
        let rejection = timeout(10 * SECOND, waiting).await.expect("it need not wait").unwrap();
        assert_eq!(reason(rejection), Some(Reason::ExceedsCapacity), "{quota}");
    }
}
