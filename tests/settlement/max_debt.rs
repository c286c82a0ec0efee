//! `max_debt`: how many permits can be owed.

use ratelimit_runtime::{Quota, RateChange, Reason, Settings};
use tests::redis_server::RedisServer;

use super::{SECOND, embedded, on_redis};

#[tokio::test]
async fn it_bounds_what_is_owed_on_both_stores() {
    let server = RedisServer::start();
    for (max_debt, became) in
        [(0, [10, 0, 20]), (3, [10, 3, 17]), (15, [10, 15, 5]), (50, [10, 20, 0])]
    {
        let yaml = format!("limiters:\n  x: {{ rate: 10, per: 1m, max_debt: {max_debt} }}\n");
        for limits in [embedded(&yaml), on_redis(&server, &yaml)] {
            let limits = limits.build().await.unwrap();
            let limiter = limits.configured("x");
            limiter.delete().await.unwrap();
            let charge = limiter.charge(30).await.unwrap();
            assert_eq!([charge.taken, charge.debt, charge.excess], became, "max_debt: {max_debt}");
            assert_eq!(limiter.try_acquire(1).await.unwrap_err().reason(), Reason::Limited);
            assert!(
                limits
                    .report()
                    .to_string()
                    .contains(&format!("max_debt: {max_debt} (limits file)"))
            );
        }
    }
}

#[tokio::test]
async fn its_default_is_the_capacity_of_the_stored_configuration() {
    // It was the capacity that this process knew, which another process had changed.
    let server = RedisServer::start();
    let [mine, theirs] = [on_redis(&server, ""), on_redis(&server, "")];
    let (mine, theirs) = (mine.build().await.unwrap(), theirs.build().await.unwrap());
    let minute = |rate| Quota::new(rate, 60 * SECOND).unwrap();
    let limiter = mine.limiter("x", minute(100));
    limiter.peek(1).await.unwrap();
    limiter.try_acquire(1).await.unwrap().give_back().await.unwrap();
    theirs.limiter("x", minute(100)).set_rate(RateChange::new(minute(5))).await.unwrap();
    let charge = limiter.charge(1000).await.unwrap();
    assert_eq!([charge.taken, charge.debt, charge.excess], [5, 5, 990]);
}

#[tokio::test]
async fn the_largest_bucket_owes_no_more_than_can_be_counted() {
    // 2^52 ticks, and half as many beyond: greater numbers are not exact in a script.
    let largest = Quota::new(142_418, 366 * 86_400 * SECOND).unwrap();
    let server = RedisServer::start();
    for quota in [largest.token_bucket(142_418).unwrap(), largest.leaky_bucket().unwrap()] {
        for limits in [embedded(""), on_redis(&server, "")] {
            let limits = limits.build().await.unwrap();
            let limiter = limits.limiter("x", Settings::new(quota).max_debt(u64::MAX));
            limiter.delete().await.unwrap();
            let charge = limiter.charge(400_000).await.unwrap();
            let became = [142_418, 71_209, 400_000 - 142_418 - 71_209];
            assert_eq!([charge.taken, charge.debt, charge.excess], became, "{quota}");
            assert_eq!(limiter.available_permits().await.unwrap(), 0, "{quota}");
            assert_eq!(limiter.release(u64::MAX).await.unwrap(), 142_418 + 71_209, "{quota}");
        }
    }
}
