//! `max_debt`: how many permits can be owed.

use ratelimit_runtime::Reason;
use tests::redis_server::RedisServer;

use super::{embedded, on_redis};

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
