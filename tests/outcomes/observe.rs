//! `observe`: the outcomes of the calls inside of a future.

use ratelimit_runtime::{Decision, Limits, Reason, Rejection, limiter, observe, rate_limit};
use tests::redis_server::RedisServer;

use super::{alone, embedded};

#[rate_limit(key = "observed:{id}", rate = 2, per = "1h", wait = "none")]
async fn limited(id: u8) -> Result<(), Rejection> {
    let _ = id;
    Ok(())
}

#[rate_limit(key = "observed-first", rate = 9, per = "1h", wait = "none")]
#[rate_limit(key = "observed-second", rate = 1, per = "1h", wait = "none", fallback = |_| Ok(0))]
#[rate_limit(key = "observed-third", rate = 9, per = "1h", skip_if = n == 1)]
async fn stacked(n: u8) -> Result<u8, Rejection> {
    Ok(n)
}

#[rate_limit(key = "observed-forever", rate = 9, per = "1h")]
async fn admitted() {}

type Outcome = Result<Decision, Rejection>;

/// The limiter of each outcome, with what is left of its permits, or why it rejected the call.
fn told(outcomes: &[Outcome]) -> Vec<(&str, Result<u64, Reason>)> {
    let told = outcomes.iter().map(|outcome| match outcome {
        Ok(decision) => (decision.limiter(), Ok(decision.remaining())),
        Err(rejection) => (rejection.limiter(), Err(rejection.reason())),
    });
    told.collect()
}

async fn in_order(limits: &Limits) {
    let calls = async {
        let ((), mut outcomes) = observe(async {
            limited(1).await.unwrap();
            limited(1).await.unwrap();
            limited(1).await.unwrap_err();
            admitted().await;
            limiter!("observed:{id}", id = 2).try_acquire(1).await.unwrap();
        })
        .await;
        let key = "observed:{id}";
        assert_eq!(
            told(&outcomes),
            [(key, Ok(1)), (key, Ok(0)), (key, Err(Reason::Limited)), ("observed-forever", Ok(8))]
        );
        let rejection = outcomes.remove(2).unwrap_err();
        assert!(rejection.retry_after().is_some());
    };
    limits.scope(calls).await;
}

#[tokio::test]
async fn calls_report_their_outcomes_in_order() {
    let server = RedisServer::start();
    in_order(&embedded().build().await.unwrap()).await;
    let on_redis = Limits::builder().redis(server.url()).no_limits_file();
    in_order(&on_redis.build().await.unwrap()).await;
}

#[tokio::test]
async fn a_call_with_several_limits_reports_each_grant_or_one_rejection() {
    alone(async {
        let (result, outcomes) = observe(stacked(1)).await;
        assert_eq!(result.unwrap(), 1);
        assert_eq!(told(&outcomes), [("observed-first", Ok(8)), ("observed-second", Ok(0))]);
        let (result, outcomes) = observe(stacked(2)).await;
        assert_eq!(result.unwrap(), 0);
        assert_eq!(told(&outcomes), [("observed-second", Err(Reason::Limited))]);
    })
    .await;
}

#[tokio::test]
async fn an_observer_sees_through_scopes_and_other_observers() {
    let inner_limits = embedded().build().await.unwrap();
    alone(async {
        let (((), inner), outer) = observe(async {
            limited(1).await.unwrap();
            let calls = async {
                limited(1).await.unwrap();
            };
            let observed = inner_limits.scope(observe(calls)).await;
            limited(1).await.unwrap();
            observed
        })
        .await;
        let key = "observed:{id}";
        assert_eq!(told(&inner), [(key, Ok(1))]);
        assert_eq!(told(&outer), [(key, Ok(1)), (key, Ok(1)), (key, Ok(0))]);
        assert!(limited(1).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn nothing_is_observed_where_nothing_is_called() {
    let ((), outcomes) = observe(async {}).await;
    assert!(outcomes.is_empty());
}
