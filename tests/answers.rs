//! What limiters answer: values that can be kept, sent to other threads and be traced to their cause.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{error::Error, fmt::Debug, hash::Hash, time::Duration};

use ratelimit_runtime::{
    Decision, Event, Limiter, LimiterConfig, Limits, Penalty, Permit, Quota, Quotas, RateChange,
    Reason, Rejection, Settings, Settlement, SetupError, StoreError, StoreErrorKind, limiter,
    rate_limit,
};
use tests::{proxy::Proxy, redis_server::RedisServer};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn quota(rate: u64, per: Duration) -> Quota {
    Quota::new(rate, per).unwrap()
}

async fn embedded(yaml: &str) -> Limits {
    Limits::builder().memory().limits_yaml(yaml).build().await.unwrap()
}

#[test]
fn handles_and_answers_can_be_sent_and_shared() {
    fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<Limits>();
    anywhere::<Limiter>();
    anywhere::<Permit>();
    anywhere::<Decision>();
    anywhere::<Rejection>();
    anywhere::<Settlement>();
    anywhere::<LimiterConfig>();
    anywhere::<RateChange>();
    anywhere::<Quotas>();
    anywhere::<StoreError>();
    anywhere::<SetupError>();
    anywhere::<Event>();
    assert_eq!(size_of::<Rejection>(), size_of::<usize>());
}

#[test]
fn values_can_be_compared_and_used_as_keys() {
    fn key<T: Clone + Debug + Eq + Hash>() {}
    key::<Quota>();
    key::<Quotas>();
    key::<Penalty>();
    key::<Settlement>();
    key::<Reason>();
    fn compared<T: Clone + Debug + Eq>() {}
    compared::<Settings>();
    compared::<Decision>();
    compared::<LimiterConfig>();
}

#[tokio::test]
async fn all_futures_of_a_limiter_can_be_sent() {
    fn sent<F: Future + Send>(_: F) {}
    let limits = embedded("").await;
    let limiter = limits.limiter("x", quota(9, HOUR));
    sent(limiter.acquire(1));
    sent(limiter.try_acquire(1));
    sent(limiter.acquire_timeout(1, SECOND));
    sent(limiter.peek(1));
    sent(limiter.charge(1));
    sent(limiter.release(1));
    sent(limiter.available_permits());
    sent(limiter.config());
    sent(limiter.try_set_rate(quota(1, HOUR)));
    sent(limiter.set_rate(Quotas::from(quota(1, HOUR))));
    sent(limiter.update_rate(RateChange::new(quota(1, HOUR)).carry()));
    sent(limiter.exists());
    sent(limiter.delete());
    sent(limiter.expire(SECOND));
    sent(limiter.clear_expire());
    sent(limiter.set_keep_alive(None));
    sent(limiter.ttl());
    sent(limiter.acquire(1).await.unwrap().settle(2));
    sent(limiter.acquire(1).await.unwrap().give_back());
}

#[rate_limit(key = "answers:{user}", rate = 1, per = "1h")]
async fn visit(user: &str) {}

#[tokio::test]
async fn no_answer_shows_the_value_of_a_key() {
    let limits = embedded("").await;
    limits
        .scope(async {
            let limiter = limiter!("answers:{user}", user = "alice");
            visit("bob").await;
            let permit = limiter.acquire(1).await.unwrap();
            assert_eq!(permit.limiter(), "answers:{user}");
            let rejection = limiter.try_acquire(1).await.unwrap_err();
            let decision = rejection.decision().expect("the limiter decided");
            let texts = [
                format!("{permit:?}"),
                format!("{rejection:?} {rejection}"),
                format!("{decision:?}"),
                format!("{limiter:?}"),
            ];
            for text in texts {
                assert!(text.contains("answers:{user}") && !text.contains("alice"), "{text}");
            }
        })
        .await;
}

#[tokio::test]
async fn a_free_request_is_granted_without_the_store() {
    let server = RedisServer::start();
    let yaml = "limiters:\n  x: { rate: 1, per: 1h, on_store_error: reject }\n";
    let limits = Limits::builder().redis(server.url()).limits_yaml(yaml).build().await.unwrap();
    let limiter = limits.configured("x");
    server.shut_down();
    for limiter in [limiter, limits.configured("unheard of")] {
        for permit in [limiter.try_acquire(0).await, limiter.acquire(0).await] {
            let permit = permit.unwrap();
            assert_eq!(permit.permits(), 0);
            assert!(!permit.is_degraded());
            assert_eq!(permit.settle(0).await.unwrap(), Settlement::default());
        }
        assert!(limiter.peek(0).await.is_ok());
    }
    let permit = limits.configured("x").try_acquire(0).await.unwrap();
    assert!(permit.settle(5).await.is_err(), "only the store can charge what it used");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_leads_to_what_the_driver_said() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let settings = "{ rate: 5, per: 1h, on_store_error: reject }";
    let yaml = format!("limiters:\n  taken: {settings}\n  slow: {settings}\n");
    let builder = Limits::builder().redis(proxy.url()).limits_yaml(yaml);
    let limits = builder.deadline(Duration::from_millis(500)).build().await.unwrap();
    let store_error = |rejection: &Rejection| {
        let source = rejection.source().expect("the store is the reason");
        source.downcast_ref::<StoreError>().expect("it is its error").clone()
    };

    let _: String = server.cli(&["SET", "taken", "by somebody else"]);
    let rejection = limits.configured("taken").try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::StoreMisconfigured);
    let error = store_error(&rejection);
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(rejection.decision().is_none() && rejection.to_string().contains("WRONGTYPE"));
    // Of the other operations, it said where in a script it happened.
    let taken = limits.configured("taken");
    for other in [taken.config().await.unwrap_err(), taken.charge(1).await.unwrap_err()] {
        assert_eq!(other.to_string(), error.to_string());
    }

    limits.configured("slow").acquire(1).await.unwrap();
    proxy.delay(2 * SECOND);
    let rejection = limits.configured("slow").try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::StoreUnavailable);
    assert_eq!(store_error(&rejection).kind(), StoreErrorKind::Timeout);
    assert!(rejection.to_string().starts_with("store unavailable for rate limit `slow`: "));
}

#[tokio::test]
async fn a_server_that_is_away_is_a_source_too() {
    let server = RedisServer::start();
    let limits = Limits::builder().redis(server.url()).no_limits_file().build().await.unwrap();
    let limiter = limits.limiter("x", quota(5, HOUR));
    limiter.acquire(1).await.unwrap();
    server.kill_hard();
    let error = limiter.available_permits().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.source().is_some(), "the driver's error: {error}");
}

#[tokio::test]
async fn parts_of_a_repeated_refusal_are_those_of_the_first() {
    let server = RedisServer::start();
    let redis = Limits::builder().redis(server.url()).deadline(20 * SECOND);
    for builder in [Limits::builder().memory(), redis] {
        let limits = builder.no_limits_file().build().await.unwrap();
        let both = Quotas::new([quota(1, 60 * SECOND), quota(2, HOUR)]).unwrap();
        let limiter = limits.limiter("x", both);
        let granted = limiter.acquire(1).await.unwrap();
        assert_eq!(granted.parts().iter().map(Decision::remaining).collect::<Vec<_>>(), [0, 1]);
        for _ in 0..3 {
            let rejection = limiter.try_acquire(1).await.unwrap_err();
            let decision = rejection.decision().unwrap();
            let [minute, hour] = decision.parts() else { panic!("two limits: {decision:?}") };
            assert_eq!((minute.quota(), minute.remaining()), (Some(quota(1, 60 * SECOND)), 0));
            assert_eq!(minute.retry_after(), rejection.retry_after());
            assert_eq!((hour.quota(), hour.remaining()), (Some(quota(2, HOUR)), 1));
            assert_eq!(hour.retry_after(), None);
            assert_eq!((decision.quota(), decision.remaining()), (minute.quota(), 0));
        }
    }
}
