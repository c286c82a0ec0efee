//! What can be done to a limiter with several limits beside asking it.

use ratelimit_runtime::{
    __private::store::StateKeys, Mode, Penalty, RateChange, Rejection, Settings, rate_limit,
    test_util::ManualClock,
};

use super::*;

async fn everything(limiter: &Limiter, pass: impl AsyncFn(Duration)) {
    assert!(!limiter.exists().await.unwrap());
    limiter.try_acquire(4).await.unwrap();
    assert!(limiter.exists().await.unwrap());
    assert_eq!(limiter.available_permits().await.unwrap(), 1);
    assert_eq!(limiter.release(3).await.unwrap(), 3);
    assert_eq!(limiter.available_permits().await.unwrap(), 4);
    assert_eq!(limiter.try_acquire(4).await.unwrap().remaining(), 0);

    // The quota of a window changes that window's limit, and no other.
    assert!(limiter.update_rate(RateChange::new(quota(7, HOUR)).carry()).await.unwrap());
    assert_eq!(limiter.quotas().unwrap().to_string(), "5 per 1m and 7 per 1h");
    assert_eq!(limiter.available_permits().await.unwrap(), 0);
    let error = limiter.set_rate(quota(7, SECOND)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`7 per 1s` matches no limit of `x` (5 per 1m and 6 per 1h); use the window and algorithm of one of \
         them"
    );
    assert!(limiter.set_rate(both(quota(2, MINUTE), quota(9, 24 * HOUR))).await.is_err());
    assert_eq!(
        limiter.quotas().unwrap().to_string(),
        "5 per 1m and 7 per 1h",
        "neither is written"
    );
    assert!(!limiter.try_set_rate(quota(9, MINUTE)).await.unwrap(), "there is one");
    limiter.set_rate(quota(2, MINUTE)).await.unwrap();
    assert_eq!(limiter.try_acquire(2).await.unwrap().quota().unwrap(), quota(2, MINUTE));
    assert_eq!(limiter.quotas().unwrap().to_string(), "2 per 1m and 7 per 1h");
    let change = RateChange::new(both(quota(8, HOUR), quota(4, MINUTE))).carry();
    assert!(limiter.update_rate(change).await.unwrap());
    assert_eq!(limiter.available_permits().await.unwrap(), 1, "what was used still counts");
    let stored = limiter.config().await.unwrap().unwrap();
    assert_eq!(stored.quotas.to_string(), "4 per 1m and 8 per 1h");
    limiter.set_rate(RateChange::new(quota(2, MINUTE)).mode(Mode::PerClient)).await.unwrap();
    assert_eq!(limiter.config().await.unwrap().unwrap().mode, Mode::PerClient);
    assert_eq!(limiter.try_acquire(2).await.unwrap().remaining(), 0);
    limiter.set_rate(RateChange::new(five_and_six()).mode(Mode::Overall)).await.unwrap();
    assert_eq!(limiter.available_permits().await.unwrap(), 5, "the mode changes for all limits");

    assert!(limiter.set_keep_alive(Some(3 * HOUR)).await.unwrap());
    let ttl = limiter.ttl().await.unwrap().unwrap();
    assert!(ttl > 2 * HOUR && ttl <= 3 * HOUR, "{ttl:?}");
    assert!(limiter.delete().await.unwrap());
    assert!(!limiter.exists().await.unwrap() && !limiter.delete().await.unwrap());
    assert_eq!(limiter.try_acquire(5).await.unwrap().remaining(), 0, "all limits begin anew");
    assert!(limiter.expire(Duration::from_millis(30)).await.unwrap());
    pass(Duration::from_millis(60)).await;
    assert!(!limiter.exists().await.unwrap());
}

fn five_and_six() -> Quotas {
    both(quota(6, HOUR), quota(5, MINUTE))
}

#[tokio::test]
async fn each_limit_of_the_embedded_store_is_managed() {
    let clock = ManualClock::new();
    let limits = embedded(&clock).build().await.unwrap();
    let pass = async |time| clock.advance(time);
    everything(&limits.limiter("x", five_and_six()), pass).await;
}

#[tokio::test]
async fn a_single_limit_takes_one_quota() {
    let limits = embedded(&ManualClock::new()).build().await.unwrap();
    let limiter = limits.limiter("x", quota(5, MINUTE));
    let error = limiter.set_rate(five_and_six()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`x` has one limit; set one quota instead of 5 per 1m and 6 per 1h"
    );
    assert!(!limiter.exists().await.unwrap());
}

#[tokio::test]
async fn each_limit_of_redis_is_managed() {
    let server = RedisServer::start();
    let limits = on_redis(&server).build().await.unwrap();
    everything(&limits.limiter("x", five_and_six()), tokio::time::sleep).await;
}

#[tokio::test]
async fn the_shortest_window_is_where_a_single_limit_would_be() {
    let server = RedisServer::start();
    let limits = on_redis(&server).build().await.unwrap();
    let daily = quota(200, 24 * HOUR).token_bucket(100).unwrap();
    let quotas = Quotas::new([quota(50, HOUR), quota(9, MINUTE), daily]).unwrap();
    limits.limiter("x", quotas).try_acquire(2).await.unwrap();
    let mut names = server.limiter_keys();
    names.retain(|name| server.cli::<String>(&["TYPE", name]) == "hash");
    assert_eq!(names, ["x", "{x}:~1d:token_bucket", "{x}:~1h"]);
    assert_eq!(server.cli::<String>(&["HGET", "x", "rate"]), "9");
    assert_eq!(server.cli::<String>(&["HGET", "{x}:~1h", "rate"]), "50");
    assert_eq!(server.cli::<i64>(&["PTTL", "x"]), -1);
    // What a changed list leaves behind goes by itself.
    let left: i64 = server.cli(&["PTTL", "{x}:~1h"]);
    assert!(left > 7_190_000 && left <= 9_000_000, "{left}");
    // A single limiter of that name is the first limit, as for a Java service.
    let alone = on_redis(&server).build().await.unwrap().limiter("x", quota(9, MINUTE));
    assert_eq!(alone.available_permits().await.unwrap(), 7);
    let keys = StateKeys::new("{x}:~1h");
    assert_eq!(server.cli::<i64>(&["GET", &keys.counter()]), 48);
}

#[rate_limit(key = "{{tagged}}:{user}", rate = 1, per = "1h", wait = "none")]
async fn of_a_user(user: &str) -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn no_value_in_a_key_makes_the_name_of_what_belongs_to_another() {
    let server = RedisServer::start();
    let limits = on_redis(&server).build().await.unwrap();
    let settings = Settings::new(five_and_six()).penalty(Penalty::new(1, HOUR));
    let limiter = limits.limiter("tagged", settings);
    while limiter.try_acquire(1).await.is_ok() {}
    let names = server.limiter_keys();
    assert_eq!(names.len(), 7, "two limiters and a penalty: {names:?}");
    for user in names.iter().filter_map(|name| name.strip_prefix("{tagged}:")) {
        let (first, second) =
            limits.scope(async { (of_a_user(user).await, of_a_user(user).await) }).await;
        assert!(first.is_ok() && second.is_err(), "{user}");
    }
}
