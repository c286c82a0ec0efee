//! The attribute, and what the limits file makes of it.

use ratelimit_runtime::{Reason, Rejection, limiter, rate_limit, test_util::ManualClock};

use super::*;

const HOURLY: u32 = 3;

#[rate_limit(key = "several:{user_id}", limits = [(1, "1s"), (HOURLY, "1h")], wait = "none")]
async fn search(user_id: u64) -> Result<(), Rejection> {
    let _ = user_id;
    Ok(())
}

#[rate_limit(key = "several-pairs", limits = [(9, "1m"), (4, "1s")], permits = 2)]
async fn pair() {}

async fn built(clock: &ManualClock, yaml: &str) -> Result<Limits, String> {
    let limits = embedded(clock).limits_yaml(yaml).build().await;
    limits.map_err(|error| error.to_string())
}

#[tokio::test]
async fn an_annotated_function_has_all_its_limits() {
    let clock = ManualClock::new();
    let limits = built(&clock, "").await.unwrap();
    let calls = async {
        for _ in 0..HOURLY {
            search(1).await.unwrap();
            let rejection = search(1).await.unwrap_err();
            assert_eq!(rejection.violated()[0], quota(1, SECOND), "{rejection}");
            clock.advance(SECOND);
        }
        let rejection = search(1).await.unwrap_err();
        assert_eq!(
            (rejection.reason(), rejection.violated()),
            (Reason::Limited, &[quota(3, HOUR)][..])
        );
        assert_eq!(rejection.retry_after(), Some(3_597 * SECOND));
        search(2).await.unwrap();
        let handle = limiter!("several:{user_id}", user_id = 2);
        assert_eq!(handle.quotas().unwrap().to_string(), "1 per 1s and 3 per 1h");
        assert_eq!(handle.available_permits().await.unwrap(), 0);
    };
    limits.scope(calls).await;
    let report = limits.report().to_string();
    assert!(report.contains("limits: 1 per 1s and 3 per 1h (annotation)"), "{report}");
}

#[tokio::test]
async fn the_file_sets_other_limits_or_one() {
    let clock = ManualClock::new();
    let quotas = async |fields: &str| {
        let yaml = format!("limiters: {{ \"several:{{user_id}}\": {{ {fields} }} }}");
        let limits = built(&clock, &yaml).await?;
        let quotas = async { limiter!("several:{user_id}", user_id = 7).quotas().unwrap() };
        Ok::<_, String>(limits.scope(quotas).await.to_string())
    };
    assert_eq!(quotas("rate: 5, per: 1m").await.unwrap(), "5 per 1m");
    assert_eq!(
        quotas("limits: [{ rate: 9, per: 1h }, { rate: 2, per: 1m }]").await.unwrap(),
        "2 per 1m and 9 per 1h"
    );
    assert_eq!(
        quotas("algorithm: fixed_window").await.unwrap(),
        "1 per 1s, fixed window and 3 per 1h, fixed window"
    );
    assert_eq!(quotas("limits: [{ rate: 9, per: 1h }]").await.unwrap(), "9 per 1h");
    assert_eq!(
        quotas("rate: 5").await.unwrap_err(),
        "limits:1:42: `several:{user_id}`: `rate` alone cannot replace `limits`; write `per` too, or write `limits` \
         (`limits` is set at tests/several/functions.rs:9)"
    );
    let nobody = built(&clock, "limiters: { \"several:{user_id}\": { rate: 0 } }").await.unwrap();
    let rejection = nobody.scope(search(1)).await.unwrap_err();
    assert_eq!(
        rejection.to_string(),
        "rate limit `several:{user_id}` has a rate of 0 and rejects every call"
    );
    let above = built(&clock, "default: { rate: 7, per: 1s }").await.unwrap();
    above.scope(search(1)).await.unwrap();
    assert!(above.scope(search(1)).await.is_err(), "a default does not go before an annotation");
}

#[tokio::test]
async fn a_cost_above_one_of_the_limits_keeps_the_program_from_starting() {
    let clock = ManualClock::new();
    let file = |fields: &str| format!("limiters: {{ \"several-pairs\": {{ {fields} }} }}");
    let error = built(&clock, &file("limits: [{ rate: 9, per: 1m }, { rate: 1, per: 1s }]")).await;
    let error = error.unwrap_err();
    assert!(
        error.ends_with(
            "`several-pairs`: `permits` is 2, but one limit is 1 per `1s`, so no call can succeed; lower \
             `permits`, or raise the limit (`limits` is set at limits:1:32)"
        ),
        "{error}"
    );
    // A bucket holds more than its rate.
    let bucket =
        "limits: [{ rate: 9, per: 1m }, { rate: 1, per: 1s, algorithm: token_bucket, burst: 2 }]";
    let limits = built(&clock, &file(bucket)).await.unwrap();
    limits.scope(pair()).await;
}
