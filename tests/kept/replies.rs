//! What a process believes of a limiter, whenever its callers read their answers.

use tests::{poll_once, redis_server::RedisServer};
use tokio::time::sleep;

use super::calls::{
    HOUR, SECOND, admitted, admitted_of, carry, ms, on_redis, quota, rate_in_force, reason,
    retry_after,
};

#[tokio::test]
async fn an_answer_that_is_read_late_does_not_bring_old_numbers_back() {
    // The callers of a process read their answers in any order; the last one read counted.
    let server = RedisServer::start();
    let (here, elsewhere) =
        (on_redis(server.url(), "{}").await, on_redis(server.url(), "{}").await);
    let limiter = here.limiter("x", quota(10, SECOND).token_bucket(5).unwrap());
    assert_eq!(admitted_of(&limiter, 6).await, 5);
    let mut late = Box::pin(limiter.acquire_timeout(1, HOUR));
    assert!(poll_once(late.as_mut()).is_none(), "its request is on its way");
    sleep(ms(50)).await;

    let peer = elsewhere.limiter("x", quota(10, SECOND).token_bucket(5).unwrap());
    assert!(!admitted(peer.try_acquire(5).await));
    carry(&peer, quota(20, SECOND).token_bucket(50).unwrap()).await;
    limiter.acquire_timeout(1, HOUR).await.unwrap();
    assert_eq!(rate_in_force(&limiter), 20, "what the later call was told");

    late.await.unwrap();
    assert_eq!(rate_in_force(&limiter), 20, "the answer of before the change was read after it");
    // Above the capacity of before, and below that of now.
    assert_eq!(reason(limiter.acquire_timeout(30, 10 * SECOND).await), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_that_expires_is_free_again_whatever_was_refused_before() {
    // A refusal was remembered for up to a second, also when the limiter expired in between.
    let server = RedisServer::start();
    let limits = on_redis(server.url(), "{}").await;
    let quota = quota(2, HOUR);
    let rules = [
        ("sliding", quota),
        ("bucket", quota.token_bucket(2).unwrap()),
        ("fixed", quota.fixed_window()),
    ];
    for (name, quota) in rules {
        let limiter = limits.limiter(name, quota);
        assert_eq!(admitted_of(&limiter, 5).await, 2, "{name}: and refusals are remembered");
        assert!(limiter.expire(ms(100)).await.unwrap(), "{name}");
        sleep(ms(200)).await;
        assert_eq!(admitted_of(&limiter, 5).await, 2, "{name}: as if it had never been used");
    }
}

#[tokio::test]
async fn a_refusal_is_not_repeated_after_a_grant_that_makes_the_wait_longer() {
    // A refusal was remembered beyond a grant for another cost, and reported the time of before it.
    let server = RedisServer::start();
    let limits = on_redis(server.url(), "{}").await;
    // A permit is free after 800 ms.
    let two = quota(5, 4 * SECOND).token_bucket(2).unwrap();
    for name in ["granted at once", "granted after a wait"] {
        let limiter = limits.limiter(name, two);
        limiter.try_acquire(2).await.unwrap();
        assert!(retry_after(&limiter, 2).await > SECOND, "{name}: the refusal is remembered");
        if name == "granted at once" {
            sleep(ms(850)).await;
        }
        limiter.acquire(1).await.unwrap();
        let wait = retry_after(&limiter, 2).await;
        assert!(wait > SECOND, "{name}: two permits are free after {wait:?}");
    }
}
