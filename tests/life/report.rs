//! The report as programs read it.

use ratelimit_runtime::Limits;
use serde_json::json;

#[tokio::test]
async fn it_is_json_with_quotas_as_entries_of_the_limits_file() {
    let yaml = "limiters:
  plain: { rate: 5, per: 1s }
  burst: { rate: 100, per: 1m, algorithm: token_bucket, burst: 300 }
  warm: { rate: 2, per: 1s, algorithm: token_bucket, warm_up: 4s }
  daily: { rate: 9, per: day, time_zone: Europe/Vienna, algorithm: fixed_window }
  both: { limits: [{ rate: 10, per: 1s }, { rate: 1000, per: 1h }] }
";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    limits.configured("plain").try_acquire(1).await.unwrap();
    let report = serde_json::to_value(limits.report()).unwrap();
    assert_eq!(report["store"], "memory");
    let limiter = |key: &str| {
        let all = report["limiters"].as_array().unwrap().iter();
        all.clone().find(|limiter| limiter["key"] == key).unwrap().clone()
    };
    let plain = limiter("plain");
    assert_eq!((&plain["allowed"], &plain["rejected"]), (&json!(1), &json!(0)));
    assert_eq!(
        plain["settings"][1],
        json!({ "name": "shadow", "value": "false", "source": "built_in" })
    );
    for (key, quotas) in [
        ("plain", json!([{ "rate": 5, "per": "1s" }])),
        ("burst", json!([{ "rate": 100, "per": "1m", "algorithm": "token_bucket", "burst": 300 }])),
        ("warm", json!([{ "rate": 2, "per": "1s", "algorithm": "token_bucket", "warm_up": "4s" }])),
        (
            "daily",
            json!([{
                "rate": 9, "per": "day", "time_zone": "Europe/Vienna", "algorithm": "fixed_window"
            }]),
        ),
        ("both", json!([{ "rate": 10, "per": "1s" }, { "rate": 1000, "per": "1h" }])),
    ] {
        assert_eq!(limiter(key)["quotas"], quotas, "{key}");
    }
}
