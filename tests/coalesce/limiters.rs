//! Callers of different limiters share calls, and nothing else.

use std::time::Duration;

use ratelimit_runtime::{Limiter, Limits, Permit, Reason, Rejection};
use tests::{eventually, proxy::Proxy, redis_cluster::RedisCluster, redis_server::RedisServer};

use super::{HOUR, SECOND, limits, quota};

/// Limiters that were used before.
async fn limiters(limits: &Limits, names: impl Iterator<Item = String>) -> Vec<Limiter> {
    let mut limiters = Vec::new();
    for name in names {
        let limiter = limits.limiter(&name, quota(10, HOUR));
        limiter.try_acquire(1).await.unwrap();
        limiters.push(limiter);
    }
    limiters
}

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("user:{n}"))
}

/// One call of each limiter, all at once.
async fn at_once(limiters: &[Limiter], permits: u64) -> Vec<Result<Permit, Rejection>> {
    let calls: Vec<_> = limiters
        .iter()
        .cloned()
        .map(|limiter| tokio::spawn(async move { limiter.try_acquire(permits).await }))
        .collect();
    let mut results = Vec::new();
    for call in calls {
        results.push(call.await.unwrap());
    }
    results
}

#[tokio::test]
async fn callers_of_many_limiters_share_calls_and_are_decided_one_by_one() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiters = limiters(&limits(&proxy.url()).await, names(300)).await;
    // Every third is used up.
    for limiter in limiters.iter().step_by(3) {
        limiter.try_acquire(8).await.unwrap();
    }
    proxy.delay(Duration::from_millis(20));
    let before = server.calls("evalsha");
    let results = at_once(&limiters, 2).await;
    let calls = server.calls("evalsha") - before;
    for (n, result) in results.iter().enumerate() {
        match result {
            Ok(permit) => assert_eq!((n % 3 > 0, permit.remaining()), (true, 7), "{n}"),
            Err(rejection) => assert_eq!((n % 3, rejection.reason()), (0, Reason::Limited), "{n}"),
        }
    }
    assert!(calls <= 60, "{calls} calls for 300 limiters");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_caller_goes_out_at_once_beside_the_calls_of_others() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiters = limiters(&limits(&proxy.url()).await, names(2)).await;
    proxy.delay(Duration::from_millis(50));
    let before = server.calls("evalsha");
    let calls = limiters.iter().map(|limiter| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.try_acquire(1).await })
    });
    let calls: Vec<_> = calls.collect();
    eventually("both are sent while the answers are held back", SECOND, || {
        server.calls("evalsha") - before == 2
    });
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_the_trouble_of_its_limiter() {
    let server = RedisServer::start();
    let limiters = limiters(&limits(&server.url()).await, names(64)).await;
    let () = server.cli(&["DEL", "user:40", "{user:40}:permits"]);
    let () = server.cli(&["SET", "{user:40}:permits", "not a log"]);
    for (n, result) in at_once(&limiters, 2).await.iter().enumerate() {
        match result {
            Ok(permit) => assert_eq!((n != 40, permit.remaining()), (true, 7), "{n}"),
            Err(error) => assert_eq!((n, error.reason()), (40, Reason::StoreMisconfigured)),
        }
    }
}

#[tokio::test]
async fn a_key_that_the_redis_user_may_not_access_is_the_trouble_of_its_limiter() {
    let rules = "on >secret +@all ~ratelimit-check* ~{ratelimit-check* ~user:* ~{user:*";
    let server = RedisServer::builder().user("app", rules).start();
    let names: Vec<_> = names(64)
        .enumerate()
        .map(|(n, name)| if n == 40 { "other".into() } else { name })
        .collect();
    let fine = names.iter().filter(|name| *name != "other").cloned();
    let app = limits(&server.url_for("app", "secret")).await;
    limiters(&app, fine).await;
    let all: Vec<_> = names.iter().map(|name| app.limiter(name, quota(10, HOUR))).collect();
    for (n, result) in at_once(&all, 2).await.iter().enumerate() {
        match result {
            Ok(permit) => assert_eq!((n != 40, permit.remaining()), (true, 7), "{n}"),
            Err(error) => assert_eq!((n, error.reason()), (40, Reason::StoreMisconfigured)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_only_keys_of_one_slot_share() {
    let cluster = RedisCluster::start();
    let names = (0..128).map(|n| format!("{{tenant:{}}}:{n}", n / 16));
    let limits = Limits::builder().redis(cluster.url()).no_limits_file().deadline(20 * SECOND);
    let limiters = limiters(&limits.build().await.unwrap(), names).await;
    for result in at_once(&limiters, 2).await {
        assert_eq!(result.unwrap().remaining(), 7);
    }
}
