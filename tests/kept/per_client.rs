//! Limiters with a budget for each process.

use std::time::{Duration, Instant};

use ratelimit_runtime::{
    Limits, LimitsBuilder, Mode, Quota, RateChange, Reason, Rejection, Settings, rate_limit,
    test_util::ManualClock,
};
use tests::{eventually, limits_file::LimitsFile, proxy::Proxy, redis_server::RedisServer};
use tokio::time::sleep;

use super::calls::{SECOND, admitted, admitted_of, free, ms, on_redis, on_redis_within, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_used_up_budget_is_whole_again_when_a_reload_resets_it() {
    // The store was reset, and what the process had counted stayed.
    let server = RedisServer::start();
    let stores: [(&str, LimitsBuilder); 2] = [
        ("embedded", Limits::builder().memory()),
        ("redis", Limits::builder().redis(server.url())),
    ];
    for (store, builder) in stores {
        let with_rate = |rate| {
            format!(
                "limiters:\n  x: {{ rate: {rate}, per: 1h, mode: per_client, on_drift: reset }}\n"
            )
        };
        let file = LimitsFile::new(&with_rate(3));
        let limits = open(&file, builder).await;
        let limiter = limits.configured("x");
        assert_eq!(admitted_of(&limiter, 5).await, 3, "{store}");
        file.write(&with_rate(5));
        limits.reload().unwrap();
        assert_eq!(admitted_of(&limiter, 10).await, 5, "{store}: all of the new rate is free");
    }
}

#[tokio::test]
async fn what_a_longer_window_carries_is_kept_while_the_limiter_is_idle() {
    // The permits were forgotten after the window in which they were taken.
    let time = ManualClock::new();
    let limits = Limits::builder().memory().no_limits_file().clock(time.clone());
    let limits = limits.build().await.unwrap();
    // Idle limiters are forgotten once there are many.
    for n in 0..2_000 {
        let _ = limits.limiter(&format!("other:{n}"), Quota::per_second(1));
    }
    for mode in [Mode::Overall, Mode::PerClient] {
        let settings = Settings::new(Quota::per_hour(5)).mode(mode);
        let limiter = || limits.limiter(&format!("{mode:?}"), settings.clone());
        assert_eq!(admitted_of(&limiter(), 4).await, 4);
        let daily = Quota::new(7, Duration::from_secs(86_400)).unwrap();
        limiter().set_rate(RateChange::new(daily).carry()).await.unwrap();
        for _ in 0..8 {
            time.advance(Duration::from_secs(1_800));
            sleep(ms(20)).await;
        }
        assert_eq!(admitted_of(&limiter(), 7).await, 3, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_in_steady_use_never_loses_its_hash() {
    // The process looked at the store every ten seconds, however short the hash is kept alive.
    let server = RedisServer::start();
    let yaml = "limiters:\n  x: { rate: 1000, per: 500ms, mode: per_client, keep_alive: 2s }\n";
    let limiter = on_redis(server.url(), yaml).await.configured("x");
    assert!(admitted(limiter.try_acquire(1).await));
    let ttl = server.cli::<i64>(&["PTTL", "x"]);
    assert!((1..=2_500).contains(&ttl), "it is kept alive for 2 s, not {ttl} ms");
    let start = Instant::now();
    while start.elapsed() < 6 * SECOND {
        assert!(admitted(limiter.try_acquire(1).await));
        let exists = server.cli::<bool>(&["EXISTS", "x"]);
        assert!(exists, "gone after {:?} of steady use", start.elapsed());
        sleep(ms(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_that_a_charge_creates_expires() {
    // It stayed until a call was admitted, and there may be none.
    let server = RedisServer::start();
    for rule in ["", ", algorithm: fixed_window", ", algorithm: token_bucket"] {
        server.cli::<String>(&["FLUSHALL"]);
        let yaml = format!(
            "limiters:\n  x: {{ rate: 9, per: 1s, mode: per_client, keep_alive: 9s{rule} }}\n"
        );
        let limiter = on_redis(server.url(), &yaml).await.configured("x");
        assert_eq!(limiter.charge(2).await.unwrap().taken, 2);
        let ttl = server.cli::<i64>(&["PTTL", "x"]);
        assert!((8_000..=11_250).contains(&ttl), "it is kept alive for 9 s, not {ttl} ms{rule}");
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Failed,
    Refused,
}

impl From<Rejection> for Outcome {
    fn from(_: Rejection) -> Self {
        Self::Refused
    }
}

#[rate_limit(
    key = "kept-refund",
    rate = 2,
    per = "1h",
    mode = "per_client",
    wait = "none",
    refund_on = "err"
)]
async fn refunded(fails: bool) -> Result<(), Outcome> {
    if fails { Err(Outcome::Failed) } else { Ok(()) }
}

/// Calls that fail count for nothing, so only `left` others are admitted.
async fn only_successes_count(limits: &Limits, left: usize) {
    for n in 0..10 {
        let outcome = limits.scope(refunded(true)).await;
        assert_eq!(outcome, Err(Outcome::Failed), "call {n} that fails is admitted");
    }
    for n in 0..4 {
        let expected = if n < left { Ok(()) } else { Err(Outcome::Refused) };
        assert_eq!(limits.scope(refunded(false)).await, expected, "success {n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_gets_its_permit_back_while_the_store_is_away() {
    // The permit went to the share of an `overall` limiter, which this one does not count by.
    let server = RedisServer::start();
    let limits = on_redis(server.url(), "{}").await;
    server.kill_hard();
    only_successes_count(&limits, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_gets_its_permit_back_when_the_store_went_away_later() {
    // As above, for a limiter that the store knew; it is looked at every second here.
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let yaml = "limiters:\n  kept-refund: { keep_alive: 2s, per: 1s }\n";
    let limits = on_redis_within(ms(500), proxy.url(), yaml).await;
    let limiter = limits.limiter("warm-up", super::calls::quota(1, SECOND));
    assert_eq!(free(&limiter).await, 1);
    assert_eq!(limits.scope(refunded(true)).await, Err(Outcome::Failed));
    proxy.cut();
    let probed = || proxy.open_connections() == 0;
    eventually("the connection is cut", SECOND, probed);
    let start = Instant::now();
    while start.elapsed() < ms(2_500) {
        let outcome = limits.scope(refunded(true)).await;
        assert_eq!(outcome, Err(Outcome::Failed), "after {:?}", start.elapsed());
        sleep(ms(20)).await;
    }
}

#[rate_limit(
    key = "kept:per-client:{user}",
    rate = 3,
    per = "1h",
    mode = "per_client",
    wait = "none"
)]
async fn of_user(user: &str) -> Result<(), Rejection> {
    let _ = user;
    Ok(())
}

#[tokio::test]
async fn a_limiter_that_follows_another_finds_it_for_as_long_as_it_counts() {
    // The embedded store counts nothing of it, and dropped its configuration as idle.
    let time = ManualClock::new();
    let limits = Limits::builder().memory().no_limits_file().clock(time.clone());
    let limits = limits.build().await.unwrap();
    for n in 0..2_000 {
        let _ = limits.limiter(&format!("other:{n}"), Quota::per_second(1));
    }
    limits.scope(of_user("ann")).await.unwrap();
    let follower = limits.configured("kept:per-client:ann");
    for left in [1, 0] {
        for _ in 0..4 {
            time.advance(Duration::from_secs(61));
            sleep(ms(20)).await;
        }
        assert_eq!(follower.try_acquire(1).await.unwrap().remaining(), left);
    }
    assert!(limits.scope(of_user("ann")).await.is_err());
    time.advance(Duration::from_secs(3 * 3_600));
    assert_eq!(follower.try_acquire(1).await.unwrap_err().reason(), Reason::NotConfigured);
}
