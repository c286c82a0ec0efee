//! Annotated functions and `limiter!` in shadow mode.

use std::time::Duration;

use ratelimit_runtime::{Limits, Reason, Rejection, limiter, rate_limit};
use tests::redis_server::RedisServer;
use tokio::time::timeout;

use super::{counted, embedded, on_redis, overruled};

#[rate_limit(key = "shadow-forever", rate = 1, per = "1h")]
pub(super) async fn forever() {}

#[rate_limit(key = "shadow-patient", rate = 1, per = "1h", wait = "2h")]
async fn patient() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "shadow-user:{id}", rate = 2, per = "1h", wait = "none", permits = permits)]
async fn by_user(id: u64, permits: u64) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "shadow-fallback", rate = 1, per = "1h", wait = "none", fallback = instead)]
async fn answered() -> &'static str {
    "the body"
}

fn instead(_: Rejection) -> &'static str {
    "the fallback"
}

#[rate_limit(key = "shadow-outer", rate = 1, per = "1h", wait = "none")]
#[rate_limit(key = "shadow-inner", rate = 1, per = "1h", wait = "none")]
async fn limited_twice() -> Result<(), Rejection> {
    Ok(())
}

async fn limits(yaml: &str) -> Limits {
    embedded(yaml).build().await.unwrap()
}

#[tokio::test]
async fn no_function_waits_refuses_or_falls_back() {
    let limits = limits("shadow: true\n").await;
    let calls = limits.scope(async {
        for _ in 0..4 {
            forever().await;
            patient().await.unwrap();
            by_user(1, 1).await.unwrap();
            assert_eq!(answered().await, "the body");
        }
        by_user(2, 3).await.unwrap();
        by_user(2, u64::MAX).await.unwrap();
        by_user(2, 0).await.unwrap();
        overruled(limiter!("shadow-patient").acquire(1).await);
        overruled(limiter!("shadow-user:{id}", id = 1).try_acquire(1).await);
    });
    timeout(Duration::from_secs(10), calls).await.expect("nobody waits");
    assert_eq!(counted(&limits, "shadow-forever"), [4, 0, 0, 3]);
    assert_eq!(counted(&limits, "shadow-patient"), [5, 0, 0, 4]);
    assert_eq!(counted(&limits, "shadow-fallback"), [4, 0, 0, 3]);
    let [allowed, _, _, shadowed] = counted(&limits, "shadow-user:{id}");
    assert_eq!((allowed, shadowed), (7, 5), "of 0 permits nothing is counted");
}

#[tokio::test]
async fn a_limit_in_force_on_the_same_function_refuses_as_ever() {
    for (shadowed, in_force) in [("shadow-outer", "shadow-inner"), ("shadow-inner", "shadow-outer")]
    {
        let limits = limits(&format!("limiters:\n  {shadowed}: {{ shadow: true }}\n")).await;
        limits
            .scope(async {
                limited_twice().await.unwrap();
                for _ in 0..3 {
                    let rejection = limited_twice().await.unwrap_err();
                    assert_eq!(rejection.reason(), Reason::Limited);
                    assert_eq!(rejection.limiter(), in_force);
                }
            })
            .await;
        assert_eq!(counted(&limits, in_force)[..2], [1, 3]);
        assert_eq!(counted(&limits, shadowed)[1], 0);
    }
}

#[rate_limit(key = "shadow-tried", rate = 1, per = "1h")]
#[rate_limit(key = "shadow-waits", rate = 1, per = "100ms")]
async fn waits_for_another() {}

async fn tried(limits: Limits) {
    limits
        .scope(async {
            for _ in 0..4 {
                waits_for_another().await;
            }
        })
        .await;
    assert_eq!(
        counted(&limits, "shadow-tried"),
        [4, 0, 0, 3],
        "each call once, and it delays none"
    );
    assert_eq!(counted(&limits, "shadow-waits"), [4, 0, 3, 0]);

    let both = limits.configured("shadow-tried").and(limits.configured("shadow-waits"));
    let rejection = both.try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.limiter(), "shadow-waits");
    assert_eq!(counted(&limits, "shadow-tried"), [4, 0, 0, 3], "the call was rejected");
}

const TRIED: &str = "limiters:\n  shadow-tried: { shadow: true }\n";

#[tokio::test]
async fn a_call_that_tries_again_counts_once_embedded() {
    tried(embedded(TRIED).build().await.unwrap()).await;
}

#[tokio::test]
async fn a_call_that_tries_again_counts_once_redis() {
    let server = RedisServer::start();
    tried(on_redis(&server, TRIED).build().await.unwrap()).await;
}

#[tokio::test]
async fn numbers_a_function_could_not_live_with_start_in_shadow_mode_only() {
    for settings in ["rate: 0", "wait: none", "max_waiters: 0", "on_store_error: reject"] {
        let yaml = |shadow: bool| {
            format!("limiters:\n  shadow-forever: {{ {settings}, shadow: {shadow} }}\n")
        };
        let limits = limits(&yaml(true)).await;
        let calls = limits.scope(async {
            forever().await;
            forever().await;
        });
        timeout(Duration::from_secs(10), calls).await.expect("nobody waits");
        let error = embedded(&yaml(false)).build().await.unwrap_err().to_string();
        assert!(error.contains("cannot reject calls"), "{error}");
    }
}
