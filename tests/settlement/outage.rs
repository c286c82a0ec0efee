//! Costs that are charged while Redis is gone, or whose replies are lost.

use std::time::Duration;

use ratelimit_runtime::Limits;
use tests::{
    eventually,
    proxy::{Proxy, Then},
    redis_server::RedisServer,
};

use super::{SECOND, owing};

async fn on(proxy: &Proxy, yaml: &str, deadline: Duration) -> Limits {
    let builder = Limits::builder().redis(proxy.url()).limits_yaml(yaml);
    builder.deadline(deadline).build().await.unwrap()
}

async fn wait_until_back(limits: &Limits) {
    eventually("the server is found", 5 * SECOND, || limits.health().store.is_ok());
}

/// Only what the share of a process holds was charged to the store; the debt was lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_owed_while_the_store_is_away_is_owed_when_it_is_back() {
    const YAML: &str = "limiters:\n  \
        sliding_window: { rate: 10, per: 1h }\n  \
        fixed_window: { rate: 10, per: 24h, algorithm: fixed_window }\n  \
        token_bucket: { rate: 10, per: 1h, algorithm: token_bucket }\n  \
        leaky_bucket: { rate: 10, per: 1h, algorithm: leaky_bucket }\n  \
        little: { rate: 10, per: 1h, max_debt: 2 }\n  \
        much: { rate: 10, per: 1h, max_debt: 50 }\n";
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = on(&proxy, YAML, 20 * SECOND).await;
    let owed = ["sliding_window", "fixed_window", "token_bucket", "leaky_bucket"].map(|of| (of, 6));
    let owed = [&owed[..], &[("little", 2), ("much", 41)]].concat();
    for (name, _) in &owed {
        limits.configured(name).acquire(1).await.unwrap();
    }
    proxy.cut();
    for (name, debt) in &owed {
        let permits = if *name == "much" { 50 } else { 15 };
        let charge = limits.configured(name).charge(permits).await.unwrap();
        assert_eq!((charge.taken, charge.debt), (9, *debt), "{name}");
    }
    proxy.restore();
    wait_until_back(&limits).await;
    for (name, debt) in &owed {
        let limiter = limits.configured(name);
        // A call that queries the store waits for the charge.
        limiter.try_acquire(1).await.unwrap_err();
        assert_eq!(owing(&limiter).await, *debt, "{name}");
    }
}

/// The server had counted it, and was charged again when it was back.
#[tokio::test(flavor = "multi_thread")]
async fn a_charge_whose_reply_is_lost_is_not_charged_again() {
    const YAML: &str = "limiters:\n  x: { rate: 100, per: 1h }\n";
    let server = RedisServer::start();
    for then in [Then::Cut, Then::Hang] {
        let proxy = Proxy::start(server.port());
        let limits = on(&proxy, YAML, SECOND).await;
        let limiter = limits.configured("x");
        // The server has the script then.
        limiter.charge(1).await.unwrap();
        proxy.swallow_replies_to("EVALSHA", 1, then);
        assert_eq!(limiter.charge(20).await.unwrap().taken, 20, "{then:?}");
        assert_eq!(proxy.traffic().swallowed, 1);
        // What is charged while the server is known to be gone is charged later.
        proxy.cut();
        assert_eq!(limiter.charge(3).await.unwrap().taken, 3, "{then:?}");
        proxy.restore();
        wait_until_back(&limits).await;
        let permit = limiter.try_acquire(1).await.unwrap();
        assert!(!permit.is_degraded());
        assert_eq!(permit.remaining(), 100 - 1 - 20 - 3 - 1, "{then:?}");
        limiter.delete().await.unwrap();
    }
}
