//! The report as programs read it.

use std::time::Duration;

use ratelimit_runtime::{
    Limits, Quota,
    report::{Reconciled, Source},
};
use serde_json::json;
use tests::{limits_file::LimitsFile, redis_server::RedisServer};

use super::limits;

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
    for key in ["plain", "burst", "warm", "daily", "both"] {
        limits.configured(key).try_acquire(1).await.unwrap();
    }
    let report = limits.report();
    let (outcome, times) = report.limiter("plain").unwrap().reconciled[0];
    assert_eq!((outcome, &*outcome.to_string(), times), (Reconciled::Created, "created", 1));
    let report = serde_json::to_value(report).unwrap();
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
        assert_eq!(limiter(key)["in_force"], json!(null), "{key}");
    }
}

#[tokio::test]
async fn it_says_what_is_in_force_instead_of_the_configuration() {
    let server = RedisServer::start();
    let yaml = "limiters:
  shared: { rate: 10, per: 1m }
  both: { limits: [{ rate: 10, per: 1s }, { rate: 1000, per: 1h }] }
  java: {}
  split: { rate: 10, per: 1m, shards: 2 }
prefixes:
  - { prefix: \"user:\", rate: 10, per: 1m }
";
    let process = || {
        let builder = Limits::builder().redis(server.url()).deadline(Duration::from_secs(5));
        builder.limits_yaml(yaml).build()
    };
    let (limits, operator) = (process().await.unwrap(), process().await.unwrap());
    let java = operator.configured("java");
    java.set_rate(Quota::per_minute(3)).await.unwrap();
    let use_all = async || {
        for key in ["shared", "both", "java", "split", "user:1"] {
            limits.configured(key).try_acquire(1).await.unwrap();
        }
    };
    let in_force = |key: &str| {
        let quotas = limits.report().limiter(key).unwrap().in_force.clone();
        quotas.map(|quotas| quotas.to_string())
    };
    assert_eq!(in_force("shared"), None, "nothing is known of it yet");
    use_all().await;
    for key in ["shared", "both", "split", "user:*"] {
        assert_eq!(in_force(key), None, "{key}");
    }
    assert_eq!(in_force("java").as_deref(), Some("3 per 1m"));
    for key in ["shared", "split", "user:1"] {
        operator.configured(key).set_rate(Quota::per_minute(4)).await.unwrap();
    }
    use_all().await;
    assert_eq!(in_force("shared").as_deref(), Some("4 per 1m"));
    assert_eq!(in_force("both"), None);
    for key in ["user:*", "split"] {
        assert_eq!(in_force(key), None, "{key} is many limiters, and not all of them are known");
    }
    let report = limits.report();
    let shown = report.limiter("shared").unwrap().to_string();
    assert!(shown.contains("\n  rate: 10 (limits file)\n"), "{shown}");
    assert!(shown.contains("\n  in force: 4 per 1m (store)\n"), "{shown}");
    let shown = report.limiter("java").unwrap().to_string();
    assert!(shown.starts_with("java\n  in force: 3 per 1m (store)\n"), "{shown}");
}

#[tokio::test]
async fn a_prefix_that_leaves_the_rest_to_code_is_not_without_a_quota() {
    let yaml = "prefixes:\n  - { prefix: \"test\", rate: 2 }\n";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    limits.limiter("test:1", Quota::per_second(100)).try_acquire(1).await.unwrap();
    let report = limits.report();
    let shown = report.limiter("test*").unwrap().to_string();
    assert!(shown.starts_with("test*\n  rate: 2 (prefix)\n  allowed 1,"), "{shown}");
}

#[tokio::test]
async fn a_program_starts_with_the_reference_of_the_limits_file() {
    let reference = include_str!("../../ratelimit-spec/src/limits_file/reference.yaml");
    // The store and its certificates are those of some production.
    let production = ["store:", "tls_ca:"];
    let lines =
        reference.lines().filter(|line| !production.iter().any(|one| line.starts_with(one)));
    let yaml = lines.collect::<Vec<_>>().join("\n");
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    let report = limits.report();
    let export = report.limiter("export").unwrap().quotas.as_ref().unwrap().to_string();
    assert_eq!(export, "10 per 1s and 5 per 1s, token bucket of 20 and 1000 per 1h, fixed window");
}

#[tokio::test]
async fn it_shows_the_settings_of_the_program() {
    let shown = |limits: &Limits| {
        let settings = limits.report().settings.into_iter();
        settings.map(|setting| (setting.name, setting.value, setting.source)).collect::<Vec<_>>()
    };
    let own = |name, value: &str, source| (name, value.to_owned(), source);
    let yaml = "deadline: 250ms\nmax_remembered: 500\nrevision: 7\n";
    let written = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    let deadline = own("deadline", "250ms", Source::LimitsFile);
    let remembered = own("max_remembered", "500", Source::LimitsFile);
    let revision = own("revision", "7", Source::LimitsFile);
    assert_eq!(shown(&written), [deadline, remembered, revision]);
    assert!(written.report().to_string().starts_with(
        "store memory\n  deadline: 250ms (limits file)\n  max_remembered: 500 (limits file)\n"
    ));
    let builder = Limits::builder().memory().limits_yaml(yaml).max_remembered(64).instances(3);
    let built = builder.deadline(Duration::from_secs(1)).revision(9).build().await.unwrap();
    let mut expected = vec![own("deadline", "1s", Source::Builder)];
    expected.push(own("max_remembered", "64", Source::Builder));
    expected.push(own("instances", "3", Source::Builder));
    expected.push(own("revision", "9", Source::Builder));
    assert_eq!(shown(&built), expected);
    let plain = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let deadline = own("deadline", "100ms", Source::BuiltIn);
    assert_eq!(shown(&plain), [deadline, own("max_remembered", "100000", Source::BuiltIn)]);
    assert!(plain.report().to_string().starts_with("store memory\n"), "built-in ones are left out");
    assert!(format!("{:#}", plain.report()).contains("\n  max_remembered: 100000 (built in)"));
}

#[tokio::test]
async fn it_lists_overrides_and_prefixes() {
    let yaml = "limiters:
  'orders:{user_id}':
    rate: 5
    per: 1m
    overrides:
      - { key: 'orders:42', rate: 0 }
      - { prefix: 'orders:vip-', rate: 50, penalty: { after: 3, block: 5m } }
prefixes:
  - { prefix: test, rate: 2, per: 1s }
";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    let report = limits.report();
    let shown = report.to_string();
    for lines in [
        "\n  per: 1m (limits file)\n  override orders:42: rate: 0\n  \
         override orders:vip-*: rate: 50, penalty: after 3, block 5m\n  allowed 0",
        "\nprefix test*: rate: 2, per: 1s",
    ] {
        assert!(shown.contains(lines), "{lines:?} in {shown}");
    }
    let orders = report.limiter("orders:{user_id}").unwrap();
    let [one, _] = &orders.overrides[..] else { panic!("{orders:?}") };
    assert_eq!((&*one.names, one.settings[0].source), ("orders:42", Source::Override));
    let report = serde_json::to_value(report).unwrap();
    assert_eq!(report["prefixes"][0]["names"], "test*");
}

/// Once listed, an entry without a call stayed after it was removed, as a limiter with no quota.
#[tokio::test]
async fn a_report_does_not_decide_what_the_next_one_lists() {
    let file = LimitsFile::new("limiters: { old: { rate: 5, per: 1s } }\n");
    let limits = Limits::builder().memory().limits_file(file.path()).build().await.unwrap();
    assert!(limits.report().limiter("old").is_some());
    file.write("limiters: { new: { rate: 5, per: 1s } }\n");
    limits.reload().unwrap();
    let report = limits.report();
    assert!(report.limiter("new").is_some() && report.limiter("old").is_none(), "{report}");
    // What was called is listed with its calls.
    limits.configured("new").try_acquire(1).await.unwrap();
    file.write("limiters: {}\n");
    limits.reload().unwrap();
    assert_eq!(limits.report().limiter("new").map(|row| row.allowed), Some(1));
}

#[tokio::test]
async fn a_key_without_placeholders_in_the_limits_file_is_kept_for_good() {
    // It was kept as long as one of many: under a Java service the limiter was gone after a minute,
    // and its next call failed.
    let yaml = "default: { rate: 9, per: 1s }
limiters: { search: { rate: 5, per: 1s } }
prefixes: [{ prefix: \"mail:\", rate: 7 }]
";
    for is_reported in [false, true] {
        let server = RedisServer::start();
        let limits = limits(&server, yaml).await;
        if is_reported {
            let _ = limits.report();
        }
        for (name, kept) in [("search", "0"), ("mail:ann", "60000"), ("visit:ann", "60000")] {
            limits.configured(name).try_acquire(1).await.unwrap();
            assert_eq!(server.cli::<String>(&["HGET", name, "keepAliveTime"]), kept, "{name}");
            assert_eq!(server.cli::<i64>(&["TTL", name]) == -1, kept == "0", "{name}");
        }
    }
}
