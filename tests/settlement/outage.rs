//! Costs that are charged while Redis is gone, or whose replies are lost.

use std::time::Duration;

use ratelimit_runtime::Limits;
use tests::{eventually, proxy::Proxy, redis_server::RedisServer};

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
