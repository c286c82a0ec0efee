//! What the feature `metrics` reports.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{sync::LazyLock, time::Duration};

use http::{Request, Response};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use ratelimit_runtime::{
    Limits, Quota, Rejection, rate_limit, test_util::ManualClock, tower::Limit,
};
use tests::{alone::alone, redis_server::RedisServer};
use tower::{Layer, ServiceExt};

const HOUR: Duration = Duration::from_secs(3_600);

/// The recorder of this process. Each test looks for its own limiters.
static RECORDER: LazyLock<PrometheusHandle> =
    LazyLock::new(|| PrometheusBuilder::new().install_recorder().unwrap());

fn value(series: &str) -> f64 {
    let text = RECORDER.render();
    let line = text
        .lines()
        .find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

fn of(name: &str, limiter: &str) -> f64 {
    value(&format!("ratelimit_{name}{{limiter=\"{limiter}\"}}"))
}

#[track_caller]
fn assert_counts(limiter: &str, expected: &[(&str, f64)]) {
    for (name, expected) in expected {
        let found = of(name, limiter);
        assert!((found - expected).abs() < 1e-9, "{name} of {limiter}: {found}, not {expected}");
    }
}

async fn embedded(yaml: &str) -> Limits {
    LazyLock::force(&RECORDER);
    Limits::builder().memory().limits_yaml(yaml).build().await.unwrap()
}

#[rate_limit(key = "measured:{user}", rate = 10, per = "1h", wait = "none")]
async fn measured(user: u64) -> Result<(), Rejection> {
    let _ = user;
    Ok(())
}

#[rate_limit(key = "refunded", rate = 10, per = "1h", wait = "none", refund_on = "err")]
async fn refunded(fails: bool) -> Result<(), Rejection> {
    if fails { Err(measured_rejection().await) } else { Ok(()) }
}

async fn measured_rejection() -> Rejection {
    let limits = embedded("").await;
    limits.configured("nothing").try_acquire(1).await.unwrap_err()
}

#[tokio::test]
async fn decisions_are_counted_by_template() {
    let limits = embedded("limiters:\n  shade: { shadow: true }\n").await;
    limits
        .scope(async {
            for user in [7, 8] {
                for _ in 0..10 {
                    measured(user).await.unwrap();
                }
                measured(user).await.unwrap_err();
            }
            refunded(false).await.unwrap();
            refunded(true).await.unwrap_err();
        })
        .await;
    // The last three of ten leave at most two.
    assert_counts("measured:{user}", &[("admitted_total", 20.0), ("near_limit_total", 6.0)]);
    let rejected = |limiter: &str, reason: &str| {
        value(&format!("ratelimit_rejected_total{{limiter=\"{limiter}\",reason=\"{reason}\"}}"))
    };
    assert!((rejected("measured:{user}", "limited") - 2.0).abs() < 1e-9);
    assert_counts("refunded", &[("admitted_total", 2.0), ("refunded_permits_total", 1.0)]);

    let shade = limits.limiter("shade", Quota::new(1, HOUR).unwrap());
    for _ in 0..3 {
        shade.try_acquire(1).await.unwrap();
    }
    assert_counts("shade", &[("admitted_total", 3.0), ("shadowed_total", 2.0)]);
    assert_eq!(shade.release(2).await.unwrap(), 1);
    assert_counts("shade", &[("refunded_permits_total", 1.0)]);
    limits.configured("unknown").try_acquire(1).await.unwrap_err();
    assert!(rejected("*", "not_configured") >= 1.0);
}

/// Only the first of them was.
#[tokio::test]
async fn a_refund_is_counted_for_each_limiter_that_gets_permits() {
    let yaml = "limiters:
  back: { rate: 5, per: 1h }
  parts: { limits: [{ rate: 5, per: 1m }, { rate: 9, per: 1h }] }
prefixes: [{ prefix: both-, rate: 5, per: 1h }]
";
    let limits = embedded(yaml).await;
    for names in [["both-1", "both-2"], ["back", "parts"]] {
        let [one, two] = names.map(|name| limits.configured(name));
        let permit = one.and(two).try_acquire(2).await.unwrap();
        assert_eq!(permit.give_back().await.unwrap(), 2);
    }
    assert_counts("both-*", &[("admitted_total", 2.0), ("refunded_permits_total", 4.0)]);
    for limiter in ["back", "parts"] {
        assert_counts(limiter, &[("admitted_total", 1.0), ("refunded_permits_total", 2.0)]);
    }
}

/// Every call of these leaves no permits, however rare calls are.
#[tokio::test]
async fn a_limit_that_saves_no_permits_up_is_never_near() {
    let yaml = "limiters:
  one: { rate: 1, per: 1h }
  leaky: { rate: 1000, per: 1s, algorithm: leaky_bucket }
  warming: { rate: 1000, per: 1s, algorithm: token_bucket, warm_up: 1s }
";
    let limits = embedded(yaml).await;
    for limiter in ["one", "leaky", "warming"] {
        limits.configured(limiter).try_acquire(1).await.unwrap();
        assert_counts(limiter, &[("admitted_total", 1.0), ("near_limit_total", 0.0)]);
    }
}

/// Each limit had more than a fifth left, and the second one more than that of the first.
#[tokio::test]
async fn a_limit_is_near_if_one_of_its_parts_is() {
    LazyLock::force(&RECORDER);
    let time = ManualClock::new();
    let yaml = "limiters:\n  near: { limits: [{ rate: 10, per: 1s }, { rate: 100, per: 1h }] }\n";
    let limits = Limits::builder().memory().limits_yaml(yaml).clock(time.clone());
    let limits = limits.build().await.unwrap();
    for n in 1..=90_u32 {
        limits.configured("near").try_acquire(1).await.unwrap();
        let near = f64::from(n.saturating_sub(79));
        assert_counts("near", &[("admitted_total", n.into()), ("near_limit_total", near)]);
        time.advance(Duration::from_millis(500));
    }
}

/// Every call was counted, because what one shard had left was compared with the whole. Another test counts all calls to
/// Redis.
#[test]
fn a_limit_is_near_if_its_shard_is() {
    alone("a_limit_is_near_if_its_shard_is", || {
        LazyLock::force(&RECORDER);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let server = RedisServer::start();
        let yaml = "limiters:\n  split: { rate: 80, per: 1h, shards: 8 }\n";
        let limits = Limits::builder().redis(server.url()).limits_yaml(yaml).deadline(HOUR / 360);
        let limits = runtime.block_on(limits.build()).unwrap();
        for _ in 0..80 {
            runtime.block_on(limits.configured("split").try_acquire(1)).unwrap();
        }
        // The last three of the ten of each shard.
        assert_counts("split", &[("admitted_total", 80.0), ("near_limit_total", 24.0)]);
    });
}

/// A call was counted once for each shard and for each attempt, and a lost refund only for the first of its limiters.
#[test]
fn what_the_store_did_not_decide_is_counted_once() {
    alone("what_the_store_did_not_decide_is_counted_once", || {
        LazyLock::force(&RECORDER);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let server = RedisServer::start();
        let yaml = "limiters:
  split: { rate: 80, per: 1h, shards: 8, on_store_error: reject }
  slow: { rate: 1, per: 2s, wait: 1m }
  one: { rate: 5, per: 1h }
  two: { limits: [{ rate: 5, per: 1m }, { rate: 9, per: 1h }] }
  here: { rate: 5, per: 1h, mode: per_client, on_store_error: reject }
";
        let limits = Limits::builder().redis(server.url()).limits_yaml(yaml).deadline(HOUR / 360);
        let limits = runtime.block_on(limits.build()).unwrap();
        let [split, slow, one, two] =
            ["split", "slow", "one", "two"].map(|name| limits.configured(name));
        let permit = runtime.block_on(one.and(two).try_acquire(1)).unwrap();
        runtime.block_on(split.try_acquire(1)).unwrap();
        server.kill_hard();
        runtime.block_on(split.try_acquire(1)).unwrap_err();
        assert_counts("split", &[("admitted_total", 1.0), ("degraded_total", 1.0)]);
        // This process counts it, and only could not read its configuration.
        let here = runtime.block_on(limits.configured("here").try_acquire(1)).unwrap();
        assert!(!here.is_degraded());
        assert_counts("here", &[("admitted_total", 1.0), ("degraded_total", 0.0)]);
        for _ in 0..2 {
            runtime.block_on(slow.acquire(1)).unwrap();
        }
        runtime.block_on(slow.try_acquire(1)).unwrap_err();
        assert_counts("slow", &[("admitted_total", 2.0), ("degraded_total", 3.0)]);
        permit.record(0);
        drop(permit);
        runtime.block_on(limits.shutdown());
        for limiter in ["one", "two"] {
            assert_counts(limiter, &[("admitted_total", 1.0), ("degraded_total", 1.0)]);
        }
        // The end of the limits is no outage.
        runtime.block_on(slow.try_acquire(1)).unwrap_err();
        assert_counts("slow", &[("degraded_total", 3.0)]);
    });
}

/// Prometheus sees no increase in a series that begins at 1, and such an event may happen only once.
#[tokio::test]
async fn events_with_an_alert_are_counted_from_0() {
    embedded("").await;
    let alerts = include_str!("../docs/metrics/alerts.yaml");
    let rest = alerts.split("{event=\"").skip(1);
    let events: Vec<_> = rest.filter_map(|rest| rest.split('"').next()).collect();
    for event in ["reload_failed", "needs_restart", "misconfigured"] {
        assert!(events.contains(&event), "no alert for {event}: {events:?}");
    }
    for event in events {
        let series = format!("ratelimit_events_total{{event=\"{event}\"}} ");
        assert!(RECORDER.render().contains(&series), "{series}");
    }
}

/// The same for a program that installs no limits: its first rate-limited call sets them up.
#[test]
fn events_are_counted_from_0_without_an_install() {
    alone("events_are_counted_from_0_without_an_install", || {
        LazyLock::force(&RECORDER);
        let _ = Limits::current();
        let text = RECORDER.render();
        assert!(text.contains("ratelimit_events_total{event=\"store_down\"} 0"), "{text}");
    });
}

/// A limit with a `wait` rejected all its calls without an alert.
#[test]
fn each_reason_has_an_alert() {
    let alerts = include_str!("../docs/metrics/alerts.yaml");
    let page = include_str!("../docs/metrics.md");
    let (_, reasons) = page.split_once("- `reason` is ").unwrap();
    let (reasons, _) = reasons.split_once("\n- ").unwrap();
    let reasons: Vec<_> = reasons.split('`').skip(1).step_by(2).collect();
    assert!(reasons.len() > 5 && reasons.contains(&"wait_too_long"), "{reasons:?}");
    // Those calls are degraded.
    for reason in reasons.into_iter().filter(|reason| *reason != "store_unavailable") {
        let listed = |mark| alerts.contains(&format!("{mark}{reason}"));
        assert!(listed("=~\"") || listed("|"), "{reason}");
    }
}

#[tokio::test]
async fn waits_are_measured_while_and_after_they_last() {
    let limits = embedded("limiters:\n  slow: { wait: 1m }\n").await;
    let slow = limits.limiter("slow", Quota::new(1, Duration::from_millis(300)).unwrap());
    slow.acquire(1).await.unwrap();
    let waits = tokio::spawn(async move { slow.acquire(1).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_counts("slow", &[("waiting", 1.0), ("wait_seconds_count", 0.0)]);
    waits.await.unwrap().unwrap();
    assert_counts("slow", &[("waiting", 0.0), ("wait_seconds_count", 1.0)]);
    let waited = of("wait_seconds_sum", "slow");
    assert!((0.2..0.6).contains(&waited), "{waited}");
}

#[rate_limit(key = "crowded", rate = 1, per = "500ms")]
async fn crowded() {}

/// Only the call in the queue was measured, and a call's time before it got there was not.
#[tokio::test]
async fn a_call_that_waits_for_room_in_the_queue_waits_too() {
    let limits = embedded("limiters:\n  crowded: { max_waiters: 1 }\n").await;
    limits.scope(crowded()).await;
    let waits: Vec<_> = (0..3).map(|_| tokio::spawn(limits.scope(crowded()))).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_counts("crowded", &[("waiting", 3.0)]);
    for wait in waits {
        wait.await.unwrap();
    }
    assert_counts("crowded", &[("waiting", 0.0), ("wait_seconds_count", 3.0)]);
    let waited = of("wait_seconds_sum", "crowded");
    assert!(waited > 2.8, "half a second, a second and a half more: {waited}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_redis_are_measured_and_so_is_its_loss() {
    LazyLock::force(&RECORDER);
    let server = RedisServer::start();
    let yaml = "limiters:\n  stored: { rate: 1000, per: 1h }\n";
    let limits = Limits::builder().redis(server.url()).limits_yaml(yaml).deadline(HOUR / 360);
    let limits = limits.build().await.unwrap();
    let stored = limits.configured("stored");
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let stored = stored.clone();
        asked.spawn(async move { stored.try_acquire(1).await.unwrap() });
    }
    asked.join_all().await;
    let calls = value("ratelimit_store_call_seconds_count{operation=\"decide\",outcome=\"ok\"}");
    let requests = value("ratelimit_store_requests_total");
    assert!(
        calls >= 1.0 && requests >= 200.0 && calls < requests,
        "{calls} calls, {requests} requests"
    );
    assert!(
        (value("ratelimit_reconciled_total{limiter=\"stored\",outcome=\"created\"}") - 1.0).abs()
            < 1e-9
    );
    server.kill_hard();
    for _ in 0..3 {
        stored.try_acquire(1).await.unwrap();
    }
    assert_counts("stored", &[("admitted_total", 203.0), ("degraded_total", 3.0)]);
    assert!(value("ratelimit_events_total{event=\"store_down\"}") >= 1.0);
    // The first call notices the outage. The others are not sent, so they say nothing of the server.
    let failed =
        value("ratelimit_store_call_seconds_count{operation=\"decide\",outcome=\"error\"}");
    assert!(failed <= 1.0, "{failed}");
    assert!((value("ratelimit_store_requests_total") - requests).abs() < 1e-9);
}

#[tokio::test]
async fn the_number_of_series_does_not_grow_with_the_number_of_keys() {
    let limits = embedded("prefixes:\n  - { prefix: \"up-\", rate: 5, per: 1h }\n").await;
    let limit = Limit::new("tenants:{tenant}", Quota::new(1, HOUR).unwrap())
        .key("tenant", |request| request.headers["tenant"].to_str().unwrap().to_owned())
        .limits(&limits);
    let ok = tower::service_fn(|_: Request<()>| async {
        Ok::<_, std::convert::Infallible>(Response::new(()))
    });
    let service = limit.layer(ok);
    let series = || {
        let text = RECORDER.render();
        let own = ["tenants:", "up-", "limiter=\"*\"", "named-"];
        text.lines().filter(|line| own.iter().any(|own| line.contains(own))).count()
    };
    let mut counts = Vec::new();
    for from in [0, 100, 5_000] {
        for n in from..from + 5_000 {
            let request = Request::builder().header("tenant", n).body(()).unwrap();
            service.clone().oneshot(request).await.unwrap();
            if n % 5 == 0 {
                let quota = Quota::new(5, HOUR).unwrap();
                limits.limiter(&format!("named-{n}"), quota).try_acquire(1).await.unwrap();
                limits.configured(&format!("up-{n}")).try_acquire(1).await.unwrap();
            }
        }
        counts.push(series());
    }
    // The second round has rejections too, of one reason.
    assert!(counts[2] <= counts[0] + 1, "{counts:?}");
    assert!(
        of("admitted_total", "up-*") > 0.0 && of("admitted_total", "tenants:{tenant}") > 9_999.0
    );
}
