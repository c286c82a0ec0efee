//! One Redis, many callers, more than one process.

use ratelimit_runtime::{RateChange, Reason};
use tests::{
    place::{at, due, since_1970},
    redis_cluster::RedisCluster,
    window::assert_kept,
};
use tokio::task::JoinSet;

use super::*;

#[tokio::test]
async fn the_trace_is_the_same_on_redis() {
    let server = RedisServer::start();
    // Longer than a busy machine takes between two calls.
    let short = 3 * SECOND;
    let (one, two) = (quota(1, short), quota(2, MINUTE));
    let trace = async |name, quotas| {
        let limits = on_redis(&server).build().await.unwrap();
        let limiter = limits.limiter(name, quotas);
        let first = limiter.try_acquire(1).await.unwrap();
        assert_eq!((first.remaining(), first.retry_after()), (0, None));
        let refused = async |violated, per: Duration| {
            let rejection = limiter.try_acquire(1).await.unwrap_err();
            assert_eq!(rejection.violated(), [violated]);
            let (due, expected) = (due(&rejection), since_1970(first.at() + per));
            assert!(due.abs_diff(expected) <= 1, "at {due} and not at {expected}");
        };
        refused(one, short).await;
        let second = limiter.acquire_timeout(1, MINUTE).await.unwrap();
        assert!(second.at() >= first.at() + short, "{second:?} after {first:?}");
        tokio::time::sleep(short + Duration::from_millis(5)).await;
        refused(two, MINUTE).await;
    };
    tokio::join!(trace("a", both(one, two)), trace("b", both(two, one)));
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_of_two_processes_never_exceed_any_limit() {
    let server = RedisServer::start();
    let (short, long) = (Duration::from_millis(200), SECOND);
    let mut processes = Vec::new();
    for _ in 0..2 {
        let limits = on_redis(&server).build().await.unwrap();
        processes.push(limits.limiter("x", both(quota(20, short), quota(60, long))));
    }
    let mut calls = JoinSet::new();
    for n in 0..200 {
        let limiter = processes[n % 2].clone();
        calls.spawn(async move {
            let mut admitted = Vec::new();
            for _ in 0..6 {
                match limiter.try_acquire(1).await {
                    Ok(permit) => admitted.push((at(&permit), 1)),
                    Err(rejection) => {
                        let wait = rejection.retry_after().unwrap();
                        tokio::time::sleep(wait.min(3 * SECOND)).await;
                    }
                }
            }
            admitted
        });
    }
    let mut admitted = calls.join_all().await.concat();
    admitted.sort_unstable();
    assert!(admitted.len() > 60, "{} calls were admitted", admitted.len());
    assert_kept(&admitted, 200, 20);
    assert_kept(&admitted, 1_000, 60);
}

#[tokio::test]
async fn a_decision_is_one_script_call_and_a_repeated_refusal_none() {
    let server = RedisServer::start();
    let limits = on_redis(&server).build().await.unwrap();
    let limiter = limits.limiter("x", both(quota(3, MINUTE), quota(5, HOUR)));
    limiter.try_acquire(1).await.unwrap();
    let before = server.calls("evalsha");
    for _ in 0..2 {
        limiter.try_acquire(1).await.unwrap();
    }
    for _ in 0..5 {
        limiter.try_acquire(1).await.unwrap_err();
    }
    assert_eq!(server.calls("evalsha") - before, 2, "the last grant said when the next is");
}

#[tokio::test]
async fn each_process_has_all_limits_to_itself() {
    let server = RedisServer::start();
    let yaml = "limiters: { x: { mode: per_client, limits: [{ rate: 2, per: 1m }, { rate: 3, per: 1h }] } }";
    for _ in 0..2 {
        let limits = on_redis(&server).limits_yaml(yaml).build().await.unwrap();
        let limiter = limits.configured("x");
        assert_eq!(asked(&limiter).await, Ok(1));
        assert_eq!(asked(&limiter).await, Ok(0));
        let (violated, _) = asked(&limiter).await.unwrap_err();
        assert_eq!(violated, ["2 per 1m"]);
        assert_eq!(limiter.available_permits().await.unwrap(), 0);
        assert!(limiter.peek(1).await.is_err());
        assert_eq!(limiter.release(2).await.unwrap(), 2);
        assert_eq!(limiter.try_acquire(2).await.unwrap().remaining(), 0);
    }
    assert_eq!(server.cli::<String>(&["HGET", "{x}:~1h", "type"]), "1");
}

#[tokio::test]
async fn shadow_mode_says_what_all_limits_would() {
    let server = RedisServer::start();
    let yaml =
        "limiters: { x: { shadow: true, limits: [{ rate: 2, per: 1m }, { rate: 3, per: 1h }] } }";
    let limits = on_redis(&server).limits_yaml(yaml).build().await.unwrap();
    let limiter = limits.configured("x");
    assert!(limiter.try_acquire(2).await.unwrap().shadowed().is_none());
    let overruled = limiter.try_acquire(2).await.unwrap();
    assert_eq!(overruled.shadowed(), Some(Reason::Limited));
    let parts: Vec<_> = overruled.parts().iter().map(|part| part.quota().unwrap()).collect();
    assert_eq!(parts, [quota(3, HOUR), quota(2, MINUTE)], "the one with the longest wait first");
    let overruled = limiter.acquire(3).await.unwrap();
    assert!(overruled.shadowed().is_some(), "more than one of the limits has");
}

#[tokio::test]
async fn a_limit_changed_by_another_process_is_followed() {
    let server = RedisServer::start();
    let quotas = || both(quota(5, MINUTE), quota(9, HOUR));
    let here = on_redis(&server).build().await.unwrap().limiter("x", quotas());
    let there = on_redis(&server).build().await.unwrap().limiter("x", quotas());
    here.try_acquire(1).await.unwrap();
    there.try_acquire(1).await.unwrap();
    assert!(there.update_rate(RateChange::new(quota(2, HOUR)).carry()).await.unwrap());
    let rejection = here.try_acquire(1).await.unwrap_err();
    assert_eq!(
        (rejection.reason(), rejection.violated()),
        (Reason::Limited, &[quota(2, HOUR)][..])
    );
    assert_eq!(here.quotas().unwrap().to_string(), "5 per 1m and 2 per 1h");
}

#[tokio::test]
async fn the_limits_of_a_key_share_a_slot_of_a_cluster() {
    let cluster = RedisCluster::start();
    let builder = Limits::builder().redis(cluster.url()).deadline(20 * SECOND).no_limits_file();
    let limits = builder.build().await.unwrap();
    for name in ["x", "a:b", "t:{acme}:7", "orders:42"] {
        let limiter = limits.limiter(name, both(quota(2, MINUTE), quota(3, HOUR)));
        assert_eq!(limiter.try_acquire(2).await.unwrap().remaining(), 0, "{name}");
        let rejection = limiter.try_acquire(2).await.unwrap_err();
        assert_eq!(rejection.violated().len(), 2, "{name}: {rejection}");
    }
}
