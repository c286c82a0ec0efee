//! Redis gone and back.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn all_limits_hold_locally_while_redis_is_away() {
    let server = RedisServer::start();
    let builder = Limits::builder().redis(server.url()).deadline(2 * SECOND).no_limits_file();
    let limits = builder.instances(2).build().await.unwrap();
    let limiter = limits.limiter("x", both(quota(4, Duration::from_millis(300)), quota(6, HOUR)));
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    server.kill_hard();
    let mut admitted = 0;
    let end = tokio::time::Instant::now() + 2 * SECOND;
    while tokio::time::Instant::now() < end {
        match limiter.try_acquire(1).await {
            Ok(decision) => {
                assert!(decision.is_degraded());
                admitted += 1;
            }
            Err(rejection) => assert!(!rejection.violated().is_empty(), "{rejection}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(admitted, 2, "half of the 5 that are left of 6 an hour, at most half of 4 at once");
    server.restart();
    let back = async {
        loop {
            if limiter.peek(1).await.is_ok_and(|decision| !decision.is_degraded()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(10 * SECOND, back).await.unwrap();
    // Until the other process must have found it too, this one keeps to its half.
    let mut after = asked(&limiter).await;
    let start = tokio::time::Instant::now();
    while after.is_err() && start.elapsed() < 5 * SECOND {
        tokio::time::sleep(Duration::from_millis(20)).await;
        after = asked(&limiter).await;
    }
    assert_eq!(after, Ok(3), "an empty server knows of the outage alone");
}
