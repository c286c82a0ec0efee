//! Limits without annotations: numbers from the file, waiting, and what is refused at startup.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "limits/hangup.rs"]
mod hangup;
#[path = "limits/named.rs"]
mod named;
#[path = "limits/watched.rs"]
mod watched;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ratelimit_runtime::{
    Event, Limits, LimitsBuilder, Mode, OnDrift, OnStoreError, Quota, Reason, Settings, Wait,
    test_util::ManualClock,
};

fn quota(rate: u32, per: Duration) -> Quota {
    Quota::new(rate.into(), per).unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

fn embedded(yaml: &str) -> LimitsBuilder {
    Limits::builder().memory().limits_yaml(yaml)
}

async fn refused(builder: LimitsBuilder) -> String {
    builder.build().await.unwrap_err().to_string()
}

#[tokio::test]
async fn the_file_overrides_the_quota_given_in_code() {
    let limits = embedded("limiters:\n  search: { rate: 2, per: 1m }\n").build().await.unwrap();
    let search = limits.limiter("search", quota(100, SECOND));
    assert_eq!(search.quotas().unwrap()[0].to_string(), "2 per 1m");
    assert!(search.try_acquire(2).await.is_ok());
    let rejection = search.try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::Limited);
    assert!(rejection.retry_after().unwrap() <= Duration::from_secs(60));
    // A field the file leaves out is the code's.
    let limits = embedded("limiters:\n  search: { rate: 2 }\n").build().await.unwrap();
    assert_eq!(
        limits.limiter("search", quota(9, SECOND)).quotas().unwrap()[0].to_string(),
        "2 per 1s"
    );
}

#[tokio::test]
async fn names_built_at_run_time_go_by_the_first_prefix_or_the_default() {
    let yaml = "default: { rate: 7, per: 1s }\nprefixes:\n  - { prefix: test-, rate: 2, per: 1s }\n  \
                - { prefix: t, rate: 3 }\n";
    let limits = embedded(yaml).build().await.unwrap();
    let rate = |name: &str| limits.configured(name).quotas().unwrap()[0].rate();
    assert_eq!((rate("test-1"), rate("tx"), rate("other")), (2, 3, 7));
    // A quota given in code is more than a default and less than a prefix.
    let given = |name: &str| limits.limiter(name, quota(50, SECOND)).quotas().unwrap()[0].rate();
    assert_eq!((given("test-2"), given("another")), (2, 50));
}

#[tokio::test]
async fn a_name_without_any_quota_is_refused_with_a_reason() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let rejection = limits.configured("nobody").try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::NotConfigured);
    assert_eq!(
        rejection.to_string(),
        "rate limit `nobody` has no quota: neither this process nor the store configures one"
    );
}

#[tokio::test]
async fn overrides_go_by_the_key_and_zero_is_nobody() {
    let yaml = "limiters:\n  x:\n    rate: 1\n    per: 1m\n    overrides:\n      - { key: x, rate: 0 }\n  \
                off: { enabled: false }\n";
    let limits = embedded(yaml).build().await.unwrap();
    let rejection = limits.configured("x").try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::ExceedsCapacity);
    assert_eq!(rejection.to_string(), "rate limit `x` has a rate of 0 and rejects every call");
    for _ in 0..100 {
        assert!(
            limits.configured("off").try_acquire(1).await.is_ok(),
            "a limiter that is off admits"
        );
    }
}

#[tokio::test]
async fn senseless_numbers_of_permits_are_refused_before_the_store() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limiter = limits.limiter("n", quota(5, SECOND));
    let reason = Reason::ExceedsCapacity;
    for permits in [6, u32::MAX.into(), u64::from(u32::MAX) + 1, u64::MAX] {
        assert_eq!(limiter.try_acquire(permits).await.unwrap_err().reason(), reason, "{permits}");
        assert_eq!(limiter.acquire(permits).await.unwrap_err().reason(), reason, "{permits}");
        // Several limiters add their permits up.
        let both = limiter.clone().and(limits.limiter("m", quota(5, SECOND)));
        assert_eq!(both.try_acquire(permits).await.unwrap_err().reason(), reason, "{permits}");
    }
    assert_eq!(limiter.peek(1).await.unwrap().remaining(), 5);
    assert!(Quota::new(0, SECOND).is_err());
    assert!(Quota::new(1 << 31, SECOND).is_err());
    assert!(Quota::new(1, Duration::from_micros(1)).is_err());
    assert!(Quota::new(1, Duration::from_secs(400 * 24 * 3600)).is_err());
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_go_first_come_first_served() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limiter = limits.limiter("queue", quota(1, SECOND));
    let order = Arc::new(Mutex::new(Vec::new()));
    let start = tokio::time::Instant::now();
    let mut tasks = Vec::new();
    for n in 0..5 {
        let (limiter, order) = (limiter.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            limiter.acquire(1).await.unwrap();
            order.lock().unwrap().push((n, start.elapsed().as_secs()));
        }));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
}

#[tokio::test(start_paused = true)]
async fn a_hopeless_wait_is_refused_at_once() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limiter = limits.limiter("hopeless", quota(1, SECOND));
    limiter.acquire(1).await.unwrap();
    let start = tokio::time::Instant::now();
    let rejection = limiter.acquire_timeout(1, Duration::from_millis(900)).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::WaitTooLong);
    assert_eq!(start.elapsed(), Duration::ZERO, "it did not wait for what could not be");
    assert_eq!(rejection.retry_after(), Some(SECOND));

    let limiter = &limiter;
    let patient = async { limiter.acquire_timeout(1, Duration::from_millis(1100)).await };
    let behind = async {
        tokio::task::yield_now().await;
        // One second for the caller ahead, another for this one.
        limiter.acquire_timeout(1, Duration::from_millis(1900)).await
    };
    let (patient, behind) = tokio::join!(patient, behind);
    assert!(patient.is_ok());
    assert_eq!(behind.unwrap_err().reason(), Reason::WaitTooLong);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_frees_its_place() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limiter = limits.limiter("drop", quota(1, SECOND));
    limiter.acquire(1).await.unwrap();
    let head = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(1).await }
    });
    tokio::task::yield_now().await;
    // While somebody waits, nobody overtakes.
    let start = tokio::time::Instant::now();
    assert!(limiter.try_acquire(1).await.is_err());
    head.abort();
    limiter.acquire(1).await.unwrap();
    assert_eq!(start.elapsed(), SECOND, "the dropped caller's turn was the next one's");
    tokio::time::sleep(SECOND).await;
    assert!(limiter.try_acquire(1).await.is_ok(), "and the dropped caller took nothing");
}

#[tokio::test]
async fn a_manual_clock_wakes_waiters() {
    let time = ManualClock::new();
    let limits =
        Limits::builder().memory().no_limits_file().clock(time.clone()).build().await.unwrap();
    let limiter = limits.limiter("manual", quota(1, SECOND));
    limiter.acquire(1).await.unwrap();
    let waiter = tokio::spawn(async move { limiter.acquire(1).await });
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    time.advance(SECOND);
    assert!(waiter.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_reload_changes_numbers_and_a_bad_one_changes_nothing() {
    let dir = std::env::temp_dir().join(format!("ratelimit-reload-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("ratelimit.yaml");
    std::fs::write(&path, "limiters:\n  x: { rate: 1, per: 1m, on_drift: carry }\n").unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let limits = Limits::builder()
        .memory()
        .limits_file(&path)
        .on_event({
            let events = Arc::clone(&events);
            move |event| events.lock().unwrap().push(event.clone())
        })
        .build()
        .await
        .unwrap();
    let limiter = limits.configured("x");
    limiter.try_acquire(1).await.unwrap();
    limiter.try_acquire(1).await.unwrap_err();

    std::fs::write(&path, "limiters:\n  x: { rate: 3, per: 1m, on_drift: carry }\n").unwrap();
    limits.reload().unwrap();
    assert_eq!(limiter.try_acquire(2).await.unwrap().remaining(), 0, "1 of 3 was used");

    std::fs::write(&path, "limiters:\n  x: { rate: 3, per: 1x }\n").unwrap();
    let error = limits.reload().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}:2:", path.display())), "{error}");
    assert_eq!(limiter.quotas().unwrap()[0].rate(), 3, "the old limits stay");
    let failed = |event: &Event| matches!(event, Event::ReloadFailed { .. });
    assert_eq!(events.lock().unwrap().iter().filter(|event| failed(event)).count(), 1);
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn the_report_says_where_each_number_came_from() {
    let limits =
        embedded("default: { per: 1m }\nlimiters:\n  x: { rate: 5 }\n").build().await.unwrap();
    limits.configured("x").try_acquire(1).await.unwrap();
    let report = limits.report();
    assert!(!report.to_string().contains("built in"), "only what a layer sets: {report}");
    let report = format!("{report:#}");
    for line in [
        "store memory",
        "rate: 5 (limits file)",
        "per: 1m (default)",
        "mode: overall (built in)",
        "allowed 1, rejected 0",
    ] {
        assert!(report.contains(line), "{line} in\n{report}");
    }
}

#[tokio::test]
async fn the_report_shows_what_a_limiter_was_given_in_code() {
    let limits = embedded("limiters:\n  x: { rate: 5 }\n").build().await.unwrap();
    let quota = |rate, per| Settings::new(Quota::new(rate, per).unwrap());
    let _ = limits.limiter("x", quota(77, SECOND * 3600).mode(Mode::PerClient));
    let report = limits.report().to_string();
    for line in ["rate: 5 (limits file)", "per: 1h (code)", "mode: per_client (code)"] {
        assert!(report.contains(line), "{line} in\n{report}");
    }
    let _ = limits.limiter("x", quota(77, SECOND * 60));
    let report = limits.report().to_string();
    assert!(report.contains("per: 1m (code)") && !report.contains("per_client"), "{report}");
}

#[tokio::test]
async fn bad_files_are_refused_with_every_problem_and_its_place() {
    let yaml = "limiters:\n  x: { rat: 5, per: 90 }\n  y: { rate: -1, per: 1s }\n  y: { rate: 1, per: 1s }\n";
    let error = refused(embedded(yaml)).await;
    assert!(error.starts_with("rate limits could not be set up, 4 problems:"), "{error}");
    for part in [
        "limits:2:8: unknown field `rat`",
        "did you mean `rate`?",
        "limits:2:",
        "limits:3:14",
        "limits:4:3",
    ] {
        assert!(error.contains(part), "{part} in\n{error}");
    }
}

#[tokio::test]
async fn a_burst_of_keys_that_exist_at_run_time_needs_a_token_bucket_too() {
    let whole = "rate: 2, per: 1s, burst: 5";
    let yaml = format!(
        "limiters: {{ late: {{ {whole} }} }}\nprefixes:\n  - {{ prefix: \"test:\", {whole} }}\n\
         default: {{ {whole} }}\n"
    );
    let error = refused(embedded(&yaml)).await;
    for (place, name) in [("1:46", "late"), ("3:49", "test:*"), ("4:37", "default")] {
        let problem = format!(
            "limits:{place}: `{name}`: `burst` requires `token_bucket`, but the algorithm is `sliding_window`; \
             set `algorithm` to `token_bucket`, or remove `burst`"
        );
        assert!(error.contains(&problem), "{error}");
    }
    for yaml in [
        "prefixes: [{ prefix: a, burst: 5 }]\ndefault: { rate: 2, per: 1s, algorithm: token_bucket }",
        "prefixes: [{ prefix: a, rate: 2, per: 1s, algorithm: token_bucket, burst: 5 }]",
        // The quota in code says what it is.
        "prefixes: [{ prefix: a, burst: 5 }]",
    ] {
        embedded(yaml).build().await.unwrap();
    }
}

#[tokio::test]
async fn a_hostile_file_is_refused_quickly() {
    let start = std::time::Instant::now();
    let error = refused(embedded(&"[".repeat(100_000))).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(error.starts_with("limits:1:"), "{error}");
}

#[tokio::test]
async fn stores_and_prefixes_that_cannot_be_are_refused() {
    let store = |url: &str| refused(Limits::builder().no_limits_file().redis(url));
    assert!(store("localhost:6379").await.contains("expected `memory` or a URL with"));
    assert!(store("redis-sentinel://a:1").await.contains("write `?master=NAME`"));
    for invalid in ["redis://h:99999", "redis://", "redis-cluster://a,:x"] {
        let error = store(invalid).await;
        assert!(error.contains("`: not a valid address; write one such as `redis"), "{error}");
    }
    let prefix = Limits::builder().memory().no_limits_file().key_prefix("a{b");
    assert_eq!(refused(prefix).await, "`a{b`: the key prefix contains a brace; remove it");
    let missing = Limits::builder().memory().limits_file("/nowhere/ratelimit.yaml");
    assert!(refused(missing).await.starts_with("/nowhere/ratelimit.yaml: cannot be read"));
    // Each at its place, with the other problems of the file.
    let yaml = "key_prefix: ${NO_SUCH_PREFIX}\nlimiters: { x: { rat: 5 } }\nstore: redis://127.0.0.1:1\n\
                tls_ca: /nowhere/ca.pem\n";
    let error = refused(Limits::builder().limits_yaml(yaml)).await;
    let lines: Vec<&str> = error.lines().skip(1).map(str::trim_start).collect();
    for (line, start) in lines.iter().zip([
        "limits:1:13: `key_prefix`: the environment variable `NO_SUCH_PREFIX` is not set",
        "limits:2:18: unknown field `rat`",
        "limits:4:9: certificates `/nowhere/ca.pem`",
    ]) {
        assert!(line.starts_with(start), "{start} in\n{error}");
    }
    assert_eq!(lines.len(), 3, "{error}");
    let several = "store: localhost:6379\nlimiters: { x: { rate: 1, per: 1s, burst: 2 } }\n";
    let error = refused(Limits::builder().limits_yaml(several)).await;
    assert!(error.contains("\n  limits:1:8: store `localhost:6379`: expected `memory`"), "{error}");
    let unset = embedded("store: redis://${NO_SUCH_VARIABLE_HERE}/0\n");
    // The builder's own store wins, so the file's is not even looked at.
    assert!(unset.build().await.is_ok());
    let unset = Limits::builder().limits_yaml("store: redis://${NO_SUCH_VARIABLE_HERE}/0\n");
    assert!(refused(unset).await.contains("NO_SUCH_VARIABLE_HERE"));
}

#[tokio::test]
async fn a_misspelled_entry_is_an_error_and_a_stranger_a_warning() {
    let strangers = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&strangers);
    let yaml = "limiters:\n  another-programs: { rate: 1, per: 1s }\n";
    let builder =
        embedded(yaml).on_event(move |event| seen.lock().unwrap().push(event.to_string()));
    builder.build().await.unwrap();
    assert_eq!(
        *strangers.lock().unwrap(),
        ["`another-programs` in the limits file matches no limiter in this program"]
    );
    let error = refused(embedded(&format!("unmatched: error\n{yaml}"))).await;
    assert_eq!(
        error,
        "limits:3:3: `another-programs` matches no limiter in this program; remove it, or write `unmatched: \
         warn`"
    );
    let limits = embedded(&format!("unmatched: ignore\n{yaml}")).on_event(|event| {
        assert!(!matches!(event, Event::Unmatched { .. }), "{event}");
    });
    limits.build().await.unwrap();
}

#[tokio::test]
async fn a_program_without_a_file_says_everything_in_code() {
    let clock = ManualClock::new();
    let limits = Limits::builder().memory().no_limits_file().clock(clock.clone());
    let limits = limits.build().await.unwrap();
    let settings = Settings::new(Quota::per_second(2))
        .mode(Mode::PerClient)
        .max_waiters(0)
        .max_debt(1)
        .on_drift(OnDrift::Carry)
        .on_store_error(OnStoreError::Reject)
        .wait(Wait::UpTo(SECOND));
    let mine = limits.limiter("mine", settings.clone());
    mine.acquire(2).await.unwrap();
    assert_eq!(mine.acquire(1).await.unwrap_err().reason(), Reason::QueueFull);
    let charged = mine.charge(3).await.unwrap();
    assert_eq!((charged.taken, charged.debt, charged.excess), (0, 1, 2));
    assert_eq!(mine.config().await.unwrap().unwrap().mode, Mode::PerClient);

    let tried_out = limits.limiter("tried out", settings.shadow(true));
    let shadowed = [tried_out.try_acquire(2).await, tried_out.try_acquire(1).await];
    let reasons = shadowed.map(|permit| permit.unwrap().shadowed());
    assert_eq!(reasons, [None, Some(Reason::Limited)]);
}

#[tokio::test]
async fn settings_in_code_yield_to_the_file_one_by_one() {
    let limits = embedded("limiters:\n  mine: { max_waiters: 0 }\n").build().await.unwrap();
    let settings = Settings::new(Quota::per_hour(1)).max_waiters(5).shadow(false);
    let mine = limits.limiter("mine", settings);
    mine.acquire(1).await.unwrap();
    assert_eq!(mine.acquire(1).await.unwrap_err().reason(), Reason::QueueFull);
    assert_eq!(mine.quotas().unwrap()[0], Quota::per_hour(1));
}

#[tokio::test]
async fn a_keep_alive_longer_than_the_window_is_kept_as_it_is_written() {
    let yaml = "limiters:\n  kept: { rate: 2, per: 1m, keep_alive: 90s }\n";
    let kept = embedded(yaml).build().await.unwrap().configured("kept");
    kept.try_acquire(1).await.unwrap();
    let config = kept.config().await.unwrap().unwrap();
    assert_eq!(config.keep_alive, Some(Duration::from_secs(90)));
}

/// A caller that checks first, and one that joins another limiter to it.
#[tokio::test]
async fn a_disabled_limiter_has_permits_for_every_call() {
    let yaml = "limiters: { off: { enabled: false } }\n";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    let (off, on) = (limits.configured("off"), limits.limiter("on", Quota::per_minute(5)));
    assert_eq!(off.available_permits().await.unwrap(), u64::MAX);
    assert_eq!(off.try_acquire(3).await.unwrap().remaining(), u64::MAX);
    assert_eq!(off.peek(3).await.unwrap().remaining(), u64::MAX);
    let both = off.and(on);
    assert_eq!(both.available_permits().await.unwrap(), 5);
    let permit = both.try_acquire(2).await.unwrap();
    assert_eq!((permit.limiter(), permit.remaining()), ("on", 3));
}
