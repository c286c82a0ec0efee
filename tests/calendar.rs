//! Fixed windows by the calendar: from the attribute to what lies in Redis.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "calendar/debt.rs"]
mod debt;
#[path = "calendar/traces.rs"]
mod traces;
#[path = "calendar/twins.rs"]
mod twins;

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ratelimit_runtime::{
    CalendarUnit, Decision, Limits, Quota, RateChange, Reason, Rejection, rate_limit,
    test_util::ManualClock,
};
use tests::{proxy::Proxy, redis_server::RedisServer, state::unpacked};

const HOUR: Duration = Duration::from_secs(3600);

fn daily(rate: u32, zone: &str) -> Quota {
    Quota::calendar(rate.into(), CalendarUnit::Day, zone).unwrap()
}

async fn limits(server: &RedisServer) -> Limits {
    let builder = Limits::builder().redis(server.url()).no_limits_file();
    builder.deadline(Duration::from_secs(5)).build().await.unwrap()
}

/// 2024-03-31 00:00 in Vienna, where the day has 23 hours.
fn short_day() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_711_839_600)
}

fn ends_at(decision: &Decision) -> u128 {
    (decision.at() + decision.reset_after()).duration_since(UNIX_EPOCH).unwrap().as_millis()
}

#[rate_limit(
    key = "mail:{user}",
    rate = 2,
    per = "day",
    time_zone = "Europe/Vienna",
    algorithm = "fixed_window",
    wait = "none"
)]
async fn mail(user: u64) -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn an_annotation_and_the_limits_file_name_the_calendar() {
    let time = ManualClock::at(short_day());
    let builder = Limits::builder().memory().clock(time.clone());
    let limits = builder.no_limits_file().build().await.unwrap();
    limits
        .scope(async {
            assert!(mail(1).await.is_ok() && mail(1).await.is_ok());
            let rejection = mail(1).await.unwrap_err();
            assert_eq!(
                rejection.violated().first().copied().unwrap().to_string(),
                "2 per day (Europe/Vienna)"
            );
            assert_eq!(rejection.retry_after(), Some(23 * HOUR));
            time.advance(23 * HOUR);
            assert!(mail(1).await.is_ok());
        })
        .await;
    let report = limits.report().to_string();
    assert!(report.contains("per: day (annotation)"), "{report}");
    assert!(report.contains("time_zone: Europe/Vienna (annotation)"), "{report}");

    let yaml = "
default: { time_zone: America/New_York }
limiters:
  \"mail:{user}\": { per: week }
  monthly: { rate: 9, per: month, algorithm: fixed_window }
  plain: { rate: 9, per: 1d, algorithm: fixed_window }
";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    let quota = |key: &str| limits.configured(key).quotas().unwrap()[0].to_string();
    assert_eq!(quota("monthly"), "9 per month (America/New_York)");
    assert_eq!(quota("plain"), "9 per 1d, fixed window");
    let report = limits.report().to_string();
    assert!(report.contains("per: week (limits file)"), "{report}");
    assert!(report.contains("time_zone: Europe/Vienna (annotation)"), "{report}");
    assert!(report.contains("time_zone: America/New_York (default)"), "{report}");
}

#[tokio::test]
async fn what_is_no_calendar_is_refused_at_startup() {
    let refused = async |yaml: &str| {
        let limits = Limits::builder().memory().limits_yaml(yaml).build().await;
        limits.map(drop).expect_err(yaml).to_string()
    };
    for (yaml, expected) in [
        (
            "limiters:\n  a: { rate: 1, per: day, time_zone: Europe/Viena, algorithm: fixed_window }\n",
            "limits:2:38: unknown time zone `Europe/Viena`; did you mean `Europe/Vienna`?",
        ),
        (
            "limiters:\n  a: { rate: 1, per: dya, algorithm: fixed_window }\n",
            "limits:2:22: unknown `per` value `dya`; did you mean `day`?",
        ),
        (
            "limiters:\n  a: { rate: 1, per: day, algorithm: leaky_bucket }\n",
            "limits:2:22: calendar window `day` requires `fixed_window`, but the algorithm is `leaky_bucket`; \
             write `fixed_window`, or a length such as `1d`",
        ),
        (
            "limiters:\n  a: { rate: 1, per: 1d, time_zone: UTC, algorithm: fixed_window }\n",
            "limits:2:37: `time_zone` has no effect, because `per` is the fixed length `1d`; \
             write a calendar unit such as `day`, or remove `time_zone`",
        ),
        (
            "limiters:\n  \"mail:{user}\": { per: 1d, time_zone: UTC }\n",
            "limits:2:40: `time_zone` has no effect, because `per` is the fixed length `1d`; \
             write a calendar unit such as `day`, or remove `time_zone`",
        ),
        // Only known once the file and the program are together.
        (
            "limiters:\n  \"mail:{user}\": { algorithm: token_bucket }\n",
            "`mail:{user}`: calendar window `day` requires `fixed_window`, but the algorithm is `token_bucket`; \
             write `fixed_window`, or a length such as `1d` (`algorithm` is set at limits:2:31)",
        ),
        (
            "limiters:\n  a: { rate: 1, per: week }\n",
            "limits:2:22: `a`: calendar window `week` requires `fixed_window`, but the algorithm is `sliding_window`; \
             write `fixed_window`, or a length such as `7d`",
        ),
        (
            "prefixes:\n  - { prefix: a, rate: 1, per: week }\n",
            "limits:2:32: `a*`: calendar window `week` requires `fixed_window`, but the algorithm is `sliding_window`; \
             write `fixed_window`, or a length such as `7d`",
        ),
    ] {
        let error = refused(yaml).await;
        assert!(error.ends_with(expected), "{error}\n{expected}");
    }
}

#[tokio::test]
async fn a_quota_in_code_names_the_calendar() {
    let quota = Quota::calendar(5, CalendarUnit::Month, "Asia/Tokyo").unwrap();
    assert_eq!(
        (quota.to_string().as_str(), quota.per()),
        ("5 per month (Asia/Tokyo)", 31 * 24 * HOUR)
    );
    assert_eq!(quota.fixed_window(), quota);
    assert_eq!(
        quota.token_bucket(3).unwrap_err().to_string(),
        "calendar window `month` requires `fixed_window`, but the algorithm is `token_bucket`; write \
         `fixed_window`, or a length such as `31d`"
    );
    assert!(Quota::calendar(0, CalendarUnit::Day, "UTC").is_err());
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    assert_eq!(limits.limiter("x", quota).try_acquire(1).await.unwrap().quota().unwrap(), quota);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_tomorrow_is_known_at_once() {
    let time = ManualClock::at(short_day());
    let builder = Limits::builder().memory().clock(time.clone()).no_limits_file();
    let limits = builder.build().await.unwrap();
    let limiter = limits.limiter("x", daily(2, "Europe/Vienna"));
    limiter.acquire(2).await.unwrap();
    let hopeless = limiter.acquire_timeout(1, 23 * HOUR - Duration::from_millis(1)).await;
    assert_eq!(hopeless.unwrap_err().reason(), Reason::WaitTooLong);
    let waiter = {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.acquire_timeout(2, 23 * HOUR).await })
    };
    tokio::task::yield_now().await;
    time.advance(23 * HOUR);
    assert_eq!(waiter.await.unwrap().unwrap().reset_after(), 24 * HOUR);
}

/// The end of today in Kathmandu, where the clocks are 5:45 ahead all year.
fn midnight_in_kathmandu(now: SystemTime) -> u128 {
    let ahead = 20_700_000;
    let local = now.duration_since(UNIX_EPOCH).unwrap().as_millis() + ahead;
    local - local % 86_400_000 + 86_400_000 - ahead
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_holds_the_calendar_and_the_window() {
    let server = RedisServer::start();
    let limiter = limits(&server).await.limiter("lim", daily(10, "Asia/Kathmandu"));
    let decision = limiter.try_acquire(4).await.unwrap();
    assert_eq!(ends_at(&decision), midnight_in_kathmandu(decision.at()));
    let field = |name: &str| server.cli::<Option<String>>(&["HGET", "lim", name]);
    assert_eq!(field("calendar").as_deref(), Some("day@Asia/Kathmandu"));
    assert_eq!(field("algorithm").as_deref(), Some("fixed_window"));
    assert_eq!(field("interval").as_deref(), Some("86400000"), "what Redisson makes of a day");
    let state: Vec<u8> = server.cli(&["HGET", "lim", "state"]);
    let (letter, numbers, calendar) = unpacked(&state, 3);
    assert_eq!(
        (letter, &numbers[1..], calendar),
        (b'f', &[4, 86_400_000][..], &b"day@Asia/Kathmandu"[..])
    );

    assert_eq!(limiter.peek(1).await.unwrap().remaining(), 6);
    assert_eq!(limiter.release(1).await.unwrap(), 1);
    assert_eq!(limiter.quotas().unwrap()[0], daily(10, "Asia/Kathmandu"));
    let stored = limiter.config().await.unwrap().unwrap();
    assert_eq!(*stored.quotas, [daily(10, "Asia/Kathmandu")]);
    let refused = limiter.try_acquire(8).await.unwrap_err();
    let until = SystemTime::now() + refused.retry_after().unwrap();
    let until = until.duration_since(UNIX_EPOCH).unwrap().as_millis();
    assert!(until.abs_diff(midnight_in_kathmandu(SystemTime::now())) < 1000);

    assert!(limiter.expire(Duration::from_secs(50)).await.unwrap());
    assert!(server.cli::<u64>(&["PTTL", "lim"]) <= 50_000);
    assert!(limiter.clear_expire().await.unwrap());
    assert_eq!(server.cli::<i64>(&["PTTL", "lim"]), -1);

    // Another zone, on purpose: what was used is kept, and then a length.
    assert!(limiter.update_rate(RateChange::new(daily(10, "Asia/Tokyo")).carry()).await.unwrap());
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 6);
    assert_eq!(field("calendar").as_deref(), Some("day@Asia/Tokyo"));
    let length = Quota::new(10, 24 * HOUR).unwrap().fixed_window();
    assert!(limiter.update_rate(RateChange::new(length).carry()).await.unwrap());
    assert_eq!((limiter.try_acquire(1).await.unwrap().remaining(), field("calendar")), (5, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_follows_the_calendar_that_is_stored() {
    let server = RedisServer::start();
    limits(&server).await.limiter("lim", daily(10, "Asia/Tokyo")).try_acquire(2).await.unwrap();
    let follower = limits(&server).await.configured("lim");
    for remaining in [7, 6, 5] {
        let decision = follower.try_acquire(1).await.unwrap();
        assert_eq!(
            (decision.quota().unwrap(), decision.remaining()),
            (daily(10, "Asia/Tokyo"), remaining)
        );
    }
    let before = server.calls("evalsha");
    follower.try_acquire(1).await.unwrap();
    assert_eq!(server.calls("evalsha") - before, 1, "it knows whose windows these are");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_nobody_knows_grants_nothing() {
    let server = RedisServer::start();
    let limiter = limits(&server).await.limiter("lim", daily(10, "UTC"));
    limiter.try_acquire(4).await.unwrap();
    let state: Vec<u8> = server.cli(&["HGET", "lim", "state"]);
    let _: i64 = server.cli(&["HSET", "lim", "calendar", "day@Mars/Olympus"]);
    let error = limiter.try_acquire(1).await.unwrap_err();
    assert_eq!(error.reason(), Reason::StoreMisconfigured);
    let error = error.to_string();
    assert!(
        error.contains("`0/fixed_window/day@Mars/Olympus`, which this process does not support"),
        "{error}"
    );
    assert_eq!(limiter.peek(1).await.unwrap_err().reason(), Reason::StoreMisconfigured);
    assert!(limiter.config().await.is_err());
    assert_eq!(server.cli::<Vec<u8>>(&["HGET", "lim", "state"]), state, "nothing was taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_moves_a_limiter_to_another_zone() {
    let server = RedisServer::start();
    let dir = std::env::temp_dir().join(format!("ratelimit-calendar-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("ratelimit.yaml");
    let write = |zone: &str, on_drift: &str| {
        let fields = format!("rate: 9, per: day, algorithm: fixed_window, time_zone: {zone}");
        let text = format!("limiters:\n  lim: {{ {fields}, on_drift: {on_drift} }}\n");
        fs::write(&path, text).unwrap();
    };
    write("Asia/Kathmandu", "reset");
    let builder = Limits::builder().redis(server.url()).limits_file(&path);
    let limits = builder.deadline(Duration::from_secs(5)).build().await.unwrap();
    let limiter = limits.configured("lim");
    let first = limiter.try_acquire(4).await.unwrap();
    assert_eq!(ends_at(&first), midnight_in_kathmandu(first.at()));

    write("Pacific/Kiritimati", "carry");
    limits.reload().unwrap();
    let carried = limiter.try_acquire(1).await.unwrap();
    assert_eq!(
        (carried.remaining(), carried.quota().unwrap()),
        (4, daily(9, "Pacific/Kiritimati"))
    );
    // 14 hours ahead of UTC, so that midnight is at ten.
    assert_eq!(ends_at(&carried) % 86_400_000, 36_000_000);

    write("Asia/Nowhere", "carry");
    let error = limits.reload().unwrap_err().to_string();
    assert!(error.contains("unknown time zone `Asia/Nowhere`"), "{error}");
    write("Etc/UTC", "reset");
    limits.reload().unwrap();
    let reset = limiter.try_acquire(1).await.unwrap();
    assert_eq!((reset.remaining(), ends_at(&reset) % 86_400_000), (8, 0));
    fs::remove_dir_all(&dir).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_costs_one_call_more_and_no_further_ones() {
    let server = RedisServer::start();
    for ahead_s in [-3600, 3600] {
        let proxy = Proxy::start(server.port());
        proxy.shift_time(ahead_s);
        let builder = Limits::builder().redis(proxy.url()).no_limits_file();
        let limits = builder.deadline(Duration::from_secs(5)).build().await.unwrap();
        let minutely = Quota::calendar(100, CalendarUnit::Minute, "UTC").unwrap();
        let limiter = limits.limiter("minutely", minutely);
        limiter.try_acquire(1).await.unwrap();
        proxy.reset_traffic();
        for _ in 0..5 {
            limiter.try_acquire(1).await.unwrap();
        }
        // A heartbeat is a call too.
        assert!(proxy.traffic().count("EVALSHA") <= 6, "{:?}", proxy.traffic());
    }
}
