//! Replies that no server of ours gives: each is an error or a decision, and no call panics.

use ratelimit_runtime::Quotas;
use tests::{
    proxy::{Alter, Proxy},
    redis_server::RedisServer,
};

use super::calls::{HOUR, SECOND, on_redis_within, quota, retry_after};

/// A server, and the address of a proxy before it.
fn proxied() -> (RedisServer, Proxy, String) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let url = format!("redis://{}", proxy.address());
    (server, proxy, url)
}

/// An array of these numbers.
fn numbers(all: &[i64]) -> Vec<u8> {
    let each: String = all.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*{}\r\n{each}", all.len()).into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn more_free_permits_than_a_limit_has_can_be_compared() {
    // The fractions that are left of two limits were subtracted from a number that is smaller.
    let (_server, proxy, url) = proxied();
    let limits = on_redis_within(SECOND, url, "{}").await;
    let both = Quotas::new([quota(5, SECOND), quota(50, HOUR)]).unwrap();
    let limiter = limits.limiter("x", ratelimit_runtime::Settings::new(both));
    let alter: Alter = |_| {
        let one = numbers(&[1, i64::MAX, 0, 99, 5, 1000, 0, 0, 0, 60, 0, 0]);
        [&b"*2\r\n"[..], &one, &one].concat()
    };
    proxy.alter_replies_to("EVALSHA", alter);
    let permit = limiter.try_acquire(1).await.unwrap();
    assert!(!permit.is_degraded());
}

#[tokio::test(flavor = "multi_thread")]
async fn more_permits_than_are_to_be_released_are_no_reply() {
    // What was left to release was less than nothing.
    let (_server, proxy, url) = proxied();
    let limits = on_redis_within(SECOND, url, "{}").await;
    let limiter = limits.limiter("x", quota(5, SECOND));
    limiter.try_acquire(2).await.unwrap();
    assert_eq!(limiter.release(1).await.unwrap(), 1, "the server knows the script from now on");
    for alter in [(|reply| released(reply, 9, 1)) as Alter, |reply| released(reply, i64::MAX, 0)] {
        proxy.alter_replies_to("EVALSHA", alter);
        let error = limiter.release(1).await.unwrap_err().to_string();
        assert!(error.starts_with("redis: unexpected reply array"), "{error}");
    }
}

/// The reply to a release of this many permits, in place of the true one. Its other calls read a configuration.
fn released(reply: &[u8], permits: i64, more: i64) -> Vec<u8> {
    match reply.starts_with(b"*3\r\n:") {
        true => numbers(&[1, permits, more]),
        false => reply.to_vec(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_after_its_bucket_is_free_has_no_time_until_then() {
    // The time until the bucket is free, seen from the reservation, was less than nothing.
    let (_server, proxy, url) = proxied();
    let limits = on_redis_within(SECOND, url, "{}").await;
    let limiter = limits.limiter("x", quota(5, SECOND).token_bucket(1).unwrap());
    limiter.try_acquire(1).await.unwrap();
    assert!(retry_after(&limiter, 1).await > SECOND / 20);
    let alter: Alter = |reply| {
        // The head and one reservation.
        match reply.starts_with(b"*17\r\n") {
            true => numbers(&[1, 0, 0, 99, 5, 1000, 0, 0, 0, 0, 0, 200, 1, 200, 0, 0, 0]),
            false => reply.to_vec(),
        }
    };
    proxy.alter_replies_to("EVALSHA", alter);
    let permit = limiter.acquire(1).await.unwrap();
    assert!(permit.reset_after().is_zero() && !permit.is_degraded());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_beyond_all_times_opens_a_connection() {
    // Its microseconds were too many for a number.
    let (_server, proxy, url) = proxied();
    proxy.alter_replies_to("TIME", |_| numbers(&[i64::MAX, i64::MAX]));
    let limits = on_redis_within(SECOND, url, "{}").await;
    let limiter = limits.limiter("x", quota(5, SECOND));
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
}
