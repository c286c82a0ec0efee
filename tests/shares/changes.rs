//! What changes while a process counts by itself, and what that means once the store is back.

use super::*;

/// Half an hour of its own share was left, so it looked again after three minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_its_share_is_admitted_once_the_store_is_back() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process(&proxy.url(), Some(2)).await;
    proxy.cut();
    notice_outage(&limits).await;
    let mut waiting = JoinSet::new();
    for (name, quota) in all_rules() {
        let limiter = limits.limiter(name, quota);
        assert_eq!(admitted_of(&limiter, 10).await, 5, "{name}");
        waiting.spawn(async move { limiter.acquire(1).await.unwrap().is_degraded() });
    }
    tokio::time::sleep(SECOND / 2).await;
    assert!(waiting.try_join_next().is_none(), "no share has more");
    proxy.restore();
    for _ in all_rules() {
        let joined = tokio::time::timeout(20 * SECOND, waiting.join_next()).await;
        assert!(!joined.expect("a call still waits").unwrap().unwrap());
    }
}
