//! Quotas and settings in a program's own configuration file.

use std::time::Duration;

use ratelimit_runtime::{
    CalendarUnit, Limits, Mode, OnStoreError, Penalty, Quota, Quotas, Reason, Settings, Wait,
};
use serde::Deserialize;
use serde_json::json;

use super::{HOUR, quota};

#[derive(Deserialize)]
struct Config {
    workers: u32,
    search: Settings,
    login: Quota,
}

#[tokio::test]
async fn a_program_keeps_its_limits_in_its_own_file() {
    let config: Config = serde_yaml::from_str(
        "workers: 4
search: { rate: 2, per: 1h, algorithm: token_bucket, burst: 3, mode: per_client, wait: 250ms }
login: { rate: 1, per: day, time_zone: Europe/Vienna, algorithm: fixed_window }
",
    )
    .unwrap();
    assert_eq!(config.workers, 4);
    let expected = Settings::new(quota(2, HOUR).token_bucket(3).unwrap())
        .mode(Mode::PerClient)
        .wait(Wait::UpTo(Duration::from_millis(250)));
    assert_eq!(config.search, expected);
    assert_eq!(config.login, Quota::calendar(1, CalendarUnit::Day, "Europe/Vienna").unwrap());
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let search = limits.limiter("search", config.search);
    search.try_acquire(3).await.unwrap();
    assert_eq!(search.try_acquire(1).await.unwrap_err().reason(), Reason::Limited);
    limits.limiter("login", config.login).try_acquire(1).await.unwrap();
    limits.limiter("login", config.login).try_acquire(1).await.unwrap_err();
}

#[test]
fn what_is_written_is_read_again() {
    let second = Quota::per_second(100);
    let quotas = [
        second,
        second.token_bucket(500).unwrap(),
        second.warming_bucket(Duration::from_secs(4)).unwrap(),
        second.leaky_bucket().unwrap(),
        Quota::new(7, Duration::from_millis(5_400_001)).unwrap().fixed_window(),
        Quota::calendar(9, CalendarUnit::Month, "Etc/GMT+5").unwrap(),
    ];
    for quota in quotas {
        let text = serde_json::to_string(&quota).unwrap();
        assert_eq!(serde_json::from_str::<Quota>(&text).unwrap(), quota, "{text}");
        let settings = Settings::new(quota)
            .mode(Mode::PerClient)
            .wait(Wait::None)
            .on_store_error(OnStoreError::Reject)
            .max_waiters(7)
            .max_debt(0)
            .keep_alive(40 * 24 * HOUR)
            .shadow(true);
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings, "{text}");
    }
    let both = Quotas::new([Quota::per_hour(1000), second.token_bucket(200).unwrap()]).unwrap();
    let text = serde_yaml::to_string(&both).unwrap();
    assert_eq!(serde_yaml::from_str::<Quotas>(&text).unwrap(), both, "{text}");
    let settings = Settings::new(both).penalty(Penalty::new(3, 2 * HOUR).up_to(48 * HOUR));
    let text = serde_yaml::to_string(&settings).unwrap();
    assert_eq!(serde_yaml::from_str::<Settings>(&text).unwrap(), settings, "{text}");
}

#[test]
fn mistakes_have_the_messages_of_the_limits_file() {
    let quota = |value| serde_json::from_value::<Quota>(value).unwrap_err().to_string();
    let settings = |value| serde_json::from_value::<Settings>(value).unwrap_err().to_string();
    for (error, expected) in [
        (
            quota(json!({ "rate": 0, "per": "1s" })),
            "`rate` is 0, which rejects every call; write a number from 1 to 2147483647",
        ),
        (
            quota(json!({ "rate": -5, "per": "1s" })),
            "`rate` cannot be `-5`; write a whole number from 0 (rejects every call) to 2147483647",
        ),
        (
            quota(json!({ "rate": 5, "per": "60" })),
            "missing unit in `60`; write `60ms`, `60s`, `60m`, `60h` or `60d`",
        ),
        (
            quota(json!({ "rate": 5 })),
            "missing `per` in a quota; write fields such as `{ rate: 5, per: 1s }`",
        ),
        (
            quota(json!("5 per 1s")),
            "a quota cannot be the text `5 per 1s`; write fields such as `{ rate: 5, per: 1s }`",
        ),
        (
            quota(json!({ "rate": 5, "per": "1s", "brust": 9 })),
            "unknown field `brust` in a quota; did you mean `burst`?",
        ),
        (
            quota(json!({ "rate": 5, "per": "1s", "wait": "none" })),
            "`wait` cannot be set in a quota; remove it, or write it in the limits file",
        ),
        (
            quota(json!({ "rate": 5, "per": "1s", "burst": 9 })),
            "`burst` requires `token_bucket`, but the algorithm is `sliding_window`; set `algorithm` to `token_bucket`, or remove `burst`",
        ),
        (
            settings(json!({ "rate": 5, "per": "1s", "mode": "per_cleint", "max_waiters": 1.5 })),
            "`max_waiters` cannot be `1.5`; write a whole number from 0 (no call waits) to 4294967295\n\
             unknown `mode` value `per_cleint`; did you mean `per_client`?",
        ),
        (
            settings(json!({ "rate": 5, "per": "1s", "shards": 2 })),
            "`shards` cannot be set in settings; remove it, or write it in the limits file",
        ),
        (
            settings(json!({ "mode": "per_client" })),
            "missing `rate` in settings; write fields such as `{ rate: 5, per: 1s }`\n\
             missing `per` in settings; write fields such as `{ rate: 5, per: 1s }`",
        ),
        (settings(json!({ "limits": [] })), "`limits` has 0 entries; write 1 to 8"),
    ] {
        assert_eq!(error, expected);
    }
    let both = json!([{ "rate": 10, "per": "1s" }, { "rate": 10, "per": "1h" }]);
    assert_eq!(
        serde_json::from_value::<Quotas>(both).unwrap_err().to_string(),
        "limit `10 per 1s` is unreachable, because `10 per 1h` never admits more; write at most 9, or remove it"
    );
}
