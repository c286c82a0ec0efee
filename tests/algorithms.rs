//! Token bucket, fixed window and leaky bucket, from the attribute to what lies in Redis.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "algorithms/governor.rs"]
mod against_governor;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant, UNIX_EPOCH},
};

use ratelimit_runtime::{
    Algorithm, Event, Limiter, Limits, Quota, RateChange, Reason, Rejection, rate_limit,
    test_util::ManualClock,
};
use tests::redis_server::RedisServer;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn quota(rate: u32, per: Duration) -> Quota {
    Quota::new(rate.into(), per).unwrap()
}

async fn limits(server: &RedisServer) -> Limits {
    let builder = Limits::builder().redis(server.url()).no_limits_file();
    builder.deadline(Duration::from_secs(5)).build().await.unwrap()
}

/// What is stored for `lim` beside its numbers.
fn stored(server: &RedisServer, field: &str) -> Option<String> {
    server.cli(&["HGET", "lim", field])
}

#[rate_limit(
    key = "export:{user}",
    rate = 10,
    per = "1h",
    algorithm = "token_bucket",
    burst = 2,
    wait = "none"
)]
async fn export(user: u64) -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn an_annotation_and_the_limits_file_name_the_rule() {
    let builder = Limits::builder().memory().no_limits_file().clock(ManualClock::new());
    let limits = builder.build().await.unwrap();
    limits
        .scope(async {
            assert!(export(1).await.is_ok() && export(1).await.is_ok());
            let rejection = export(1).await.unwrap_err();
            let quota = rejection.violated().first().copied().unwrap();
            assert_eq!(quota.to_string(), "10 per 1h, token bucket of 2");
            assert_eq!(rejection.retry_after(), Some(Duration::from_secs(360)));
            assert!(export(2).await.is_ok(), "another user has another bucket");
        })
        .await;
    let report = limits.report().to_string();
    assert!(report.contains("algorithm: token_bucket (annotation)"), "{report}");
    assert!(report.contains("burst: 2 (annotation)"), "{report}");

    let yaml = "limiters:\n  \"export:{user}\": { burst: 3 }\n  mail: { rate: 1, per: 1s, algorithm: leaky_bucket }\n";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    limits
        .scope(async {
            for _ in 0..3 {
                assert!(export(1).await.is_ok());
            }
            assert_eq!(export(1).await.unwrap_err().reason(), Reason::Limited);
        })
        .await;
    let mail = limits.configured("mail").quotas().unwrap()[0];
    assert_eq!((mail.algorithm(), mail.burst()), (Algorithm::LeakyBucket, None));

    // A bucket without a burst holds its rate, and another rule leaves the burst aside.
    let yaml = "limiters:\n  \"export:{user}\": { algorithm: fixed_window, rate: 4 }\n  x: { rate: 7, per: 1s, algorithm: token_bucket }\n";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    assert_eq!(limits.configured("x").quotas().unwrap()[0].burst(), Some(7));
    limits
        .scope(async {
            for _ in 0..4 {
                assert!(export(1).await.is_ok());
            }
        })
        .await;
}

#[tokio::test]
async fn what_no_rule_can_count_by_is_refused_at_startup() {
    let refused = async |yaml: &str| {
        let limits = Limits::builder().memory().limits_yaml(yaml).build().await;
        limits.map(drop).expect_err(yaml).to_string()
    };
    let entry = |fields: &str| format!("limiters:\n  \"export:{{user}}\": {{ {fields} }}\n");
    let error = refused(&entry("per: 366d, burst: 2000000000")).await;
    assert_eq!(
        error,
        "limits:2:40: `export:{user}`: a `burst` of 2000000000 in `366d` is too large to be counted exactly; \
         write at most 142418, or a shorter `per`"
    );
    let yaml = "default: { algorithm: leaky_bucket }\nlimiters:\n  \"tea:{cup}\": { burst: 5 }\n";
    let error = refused(yaml).await;
    assert_eq!(
        error,
        "limits:3:25: `tea:{cup}`: `burst` requires `token_bucket`, but the algorithm is `leaky_bucket`; set \
         `algorithm` to `token_bucket`, or remove `burst` (`algorithm` is set at limits:1:23)"
    );
}

#[rate_limit(key = "tea:{cup}", rate = 10, per = "1s")]
#[expect(dead_code, reason = "the limits file is held against it")]
async fn tea(cup: u64) {}

#[tokio::test]
async fn a_quota_in_code_names_the_rule() {
    for (quota, said) in [
        (quota(10, SECOND).token_bucket(20).unwrap(), "10 per 1s, token bucket of 20"),
        (quota(10, SECOND).fixed_window(), "10 per 1s, fixed window"),
        (quota(10, SECOND).leaky_bucket().unwrap(), "10 per 1s, leaky bucket"),
    ] {
        assert_eq!(quota.to_string(), said);
        let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
        assert_eq!(limits.limiter("x", quota).quotas().unwrap()[0], quota);
        assert_eq!(
            limits.limiter("x", quota).try_acquire(1).await.unwrap().quota().unwrap(),
            quota
        );
    }
    let too_large = quota(1, HOUR).token_bucket(2_000_000_000).unwrap_err();
    assert_eq!(
        too_large.to_string(),
        "a `burst` of 2000000000 in `1h` is too large to be counted exactly; write at most \
         1250999896, or a shorter `per`"
    );
    assert!(quota(2_000_000_000, HOUR).leaky_bucket().is_err());
    assert!(quota(1, SECOND).token_bucket(0).is_err());
}

#[tokio::test(start_paused = true)]
async fn callers_of_a_leaky_bucket_go_in_turn_and_evenly_spaced() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let limiter = limits.limiter("queue", quota(10, SECOND).leaky_bucket().unwrap());
    let order = Arc::new(Mutex::new(Vec::new()));
    let start = tokio::time::Instant::now();
    let mut tasks = Vec::new();
    for n in 0..5_u32 {
        let (limiter, order) = (limiter.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            limiter.acquire((1 + n % 2).into()).await.unwrap();
            order.lock().unwrap().push((n, start.elapsed().as_millis()));
        }));
        tokio::task::yield_now().await;
    }
    // Seven slots are ahead of it, so a wait that cannot be long enough is refused at once.
    let hopeless = limiter.acquire_timeout(1, Duration::from_millis(650)).await.unwrap_err();
    assert_eq!((hopeless.reason(), start.elapsed().as_millis()), (Reason::WaitTooLong, 0));
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [(0, 0), (1, 100), (2, 300), (3, 400), (4, 600)]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_spans_windows_or_refills_is_known_at_once() {
    let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
    for quota in [quota(2, SECOND).fixed_window(), quota(2, SECOND).token_bucket(2).unwrap()] {
        let limiter = limits.limiter(&quota.to_string(), quota);
        limiter.acquire(2).await.unwrap();
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.acquire(1).await.unwrap() })
            })
            .collect();
        tokio::task::yield_now().await;
        let start = tokio::time::Instant::now();
        let hopeless = limiter.acquire_timeout(1, Duration::from_millis(900)).await.unwrap_err();
        assert_eq!((hopeless.reason(), start.elapsed()), (Reason::WaitTooLong, Duration::ZERO));
        for waiter in waiting {
            waiter.await.unwrap();
        }
        assert!(start.elapsed() <= 2 * SECOND, "{:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_a_field_of_the_hash() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    for (quota, letter, algorithm, burst) in [
        (quota(10, HOUR).token_bucket(20).unwrap(), b'b', "token_bucket", Some("20")),
        (quota(10, HOUR).token_bucket(10).unwrap(), b'b', "token_bucket", None),
        (quota(10, HOUR).leaky_bucket().unwrap(), b'b', "leaky_bucket", None),
        (quota(10, 24 * HOUR).fixed_window(), b'f', "fixed_window", None),
    ] {
        let _: String = server.cli(&["FLUSHALL"]);
        limits.limiter("lim", quota).try_acquire(2).await.unwrap();
        assert_eq!(server.limiter_keys(), ["lim"]);
        assert_eq!(stored(&server, "algorithm").as_deref(), Some(algorithm));
        assert_eq!(stored(&server, "burst").as_deref(), burst);
        let state: Vec<u8> = server.cli(&["HGET", "lim", "state"]);
        assert_eq!(state[0], letter, "{state:?}");
        assert_eq!(server.cli::<i64>(&["PTTL", "lim"]), -1, "a fixed key does not expire");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_that_is_a_sliding_window_again_is_redissons_again() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let limiter = limits.limiter("lim", quota(10, HOUR).token_bucket(20).unwrap());
    limiter.try_acquire(4).await.unwrap();
    assert!(limiter.update_rate(RateChange::new(quota(10, HOUR)).carry()).await.unwrap());
    assert_eq!((stored(&server, "algorithm"), stored(&server, "burst")), (None, None));
    let decision = limiter.try_acquire(1).await.unwrap();
    assert_eq!(
        (decision.remaining(), decision.quota().unwrap()),
        (5, quota(10, HOUR)),
        "what was used counts"
    );
    assert_eq!(server.limiter_keys(), ["lim", "{lim}:permits", "{lim}:value"]);
    assert_eq!(server.cli::<i64>(&["GET", "{lim}:value"]), 5);
    assert_eq!(server.cli::<i64>(&["PTTL", "{lim}:value"]), -1);
}

/// Each rule to each other one, with what was used.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_rule_keeps_or_forgets_what_was_used() {
    let server = RedisServer::start();
    let memory = Limits::builder().memory().no_limits_file().build().await.unwrap();
    let stores = [limits(&server).await, memory];
    let week = 7 * 24 * HOUR;
    let rules = [
        quota(10, week),
        quota(10, week).token_bucket(10).unwrap(),
        quota(10, week).fixed_window(),
        quota(10, week).leaky_bucket().unwrap(),
    ];
    for (limits, (n, (from, to))) in stores.iter().flat_map(|limits| {
        let pairs = rules.iter().flat_map(|from| rules.iter().map(move |to| (*from, *to)));
        pairs.enumerate().map(move |pair| (limits, pair))
    }) {
        let limiter = limits.limiter(&format!("rule{n}"), from);
        limiter.try_acquire(3).await.unwrap();
        assert!(limiter.update_rate(RateChange::new(to).carry()).await.unwrap());
        assert_eq!(limiter.quotas().unwrap()[0], to);
        assert_eq!(limiter.release(9).await.unwrap(), 3, "{from} to {to}");
        limiter.try_acquire(10).await.unwrap();
        limiter.set_rate(from).await.unwrap();
        assert_eq!(limiter.try_acquire(10).await.unwrap().quota().unwrap(), from, "{to} to {from}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_follows_the_rule_that_is_stored() {
    let server = RedisServer::start();
    let first = limits(&server).await;
    let bucket = quota(10, HOUR).token_bucket(20).unwrap();
    first.limiter("lim", bucket).try_acquire(5).await.unwrap();
    let second = limits(&server).await.configured("lim");
    let decision = second.try_acquire(12).await.unwrap();
    assert_eq!((decision.quota().unwrap(), decision.remaining()), (bucket, 3));
    assert_eq!(*second.config().await.unwrap().unwrap().quotas, [bucket]);

    // An operator's change is followed, whatever it does to the state.
    let _: i64 = server.cli(&["HSET", "lim", "algorithm", "fixed_window"]);
    let rejection = first.limiter("lim", bucket).try_acquire(9).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::Limited);
    assert_eq!(rejection.violated().first().copied().unwrap(), quota(10, HOUR).fixed_window());

    // One of a later version is not counted by a rule that it does not mean.
    let _: i64 = server.cli(&["HSET", "lim", "algorithm", "calendar"]);
    let rejection = second.try_acquire(1).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::StoreMisconfigured);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_that_is_the_rate_is_not_stored_and_follows_it() {
    let server = RedisServer::start();
    let first = limits(&server).await.limiter("lim", quota(10, HOUR).token_bucket(10).unwrap());
    first.try_acquire(2).await.unwrap();
    assert_eq!(stored(&server, "burst"), None);

    // A client that knows no buckets changes the rate alone.
    let _: i64 = server.cli(&["HSET", "lim", "rate", "6"]);
    let decision = first.try_acquire(2).await.unwrap();
    assert_eq!(decision.quota().unwrap(), quota(6, HOUR).token_bucket(6).unwrap());
    assert_eq!(decision.remaining(), 2, "what was used counts");

    // A bucket that warms up has no burst either, and is not mistaken for this one.
    let warms_up = quota(6, HOUR).warming_bucket(HOUR).unwrap();
    let second = limits(&server).await.configured("lim");
    second.set_rate(warms_up).await.unwrap();
    assert_eq!(first.try_acquire(1).await.unwrap().quota().unwrap(), warms_up);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_rule_is_a_drift_like_any_other() {
    let server = RedisServer::start();
    let start = async |rule: &str, on_drift: &str| {
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        let yaml = format!(
            "limiters:\n  lim: {{ rate: 10, per: 1h, on_drift: {on_drift}, algorithm: {rule} }}\n"
        );
        let builder = Limits::builder().redis(server.url()).limits_yaml(yaml);
        let builder = builder.on_event(move |event| {
            if let Event::Reconciled { outcome, .. } = event {
                seen.lock().unwrap().push(format!("{outcome:?}"));
            }
        });
        let limits = builder.deadline(Duration::from_secs(5)).build().await.unwrap();
        (limits.configured("lim"), events)
    };
    let (old, _) = start("sliding_window", "reset").await;
    old.try_acquire(4).await.unwrap();
    let (carries, events) = start("token_bucket", "carry").await;
    assert_eq!(carries.try_acquire(1).await.unwrap().remaining(), 5);
    assert_eq!(*events.lock().unwrap(), ["Carried"]);
    assert_eq!(
        old.try_acquire(1).await.unwrap().quota().unwrap().algorithm(),
        Algorithm::TokenBucket
    );
    let (resets, events) = start("leaky_bucket", "reset").await;
    assert!(resets.try_acquire(1).await.is_ok(), "what was used is forgotten");
    assert_eq!(*events.lock().unwrap(), ["Reset"]);
    assert_eq!(stored(&server, "burst"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expiry_takes_what_is_used_along() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let limiter = limits.limiter("lim", quota(2, HOUR).token_bucket(2).unwrap());
    limiter.try_acquire(2).await.unwrap();
    assert!(limiter.expire(Duration::from_millis(200)).await.unwrap());
    assert!(limiter.clear_expire().await.unwrap());
    assert_eq!(server.cli::<i64>(&["PTTL", "lim"]), -1);

    assert!(limiter.expire(Duration::from_millis(200)).await.unwrap());
    assert_eq!(limiter.release(1).await.unwrap(), 1, "what is written meanwhile expires with it");
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert!(server.limiter_keys().is_empty(), "{:?}", server.limiter_keys());
    assert!(limiter.try_acquire(2).await.is_ok());
}

/// The permits of several processes on one limiter, each with the server's time in milliseconds.
async fn hammered(server: &RedisServer, quota: Quota, run: Duration) -> Vec<u64> {
    let until = Instant::now() + run;
    let mut processes = Vec::new();
    for _ in 0..3 {
        let limiter: Limiter = limits(server).await.limiter("hot", quota);
        for patient in [true, false, false] {
            let limiter = limiter.clone();
            processes.push(tokio::spawn(async move {
                let mut granted = Vec::new();
                while Instant::now() < until {
                    let left = until.saturating_duration_since(Instant::now());
                    let decision = match patient {
                        true => limiter.acquire_timeout(1, left).await,
                        false => limiter.try_acquire(1).await,
                    };
                    match decision {
                        Ok(decision) => granted.push(decision.at()),
                        Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                    }
                }
                granted
            }));
        }
    }
    let mut all = Vec::new();
    for process in processes {
        all.extend(process.await.unwrap());
    }
    let millis = |at: std::time::SystemTime| at.duration_since(UNIX_EPOCH).unwrap().as_millis();
    let mut all: Vec<u64> = all.into_iter().map(|at| u64::try_from(millis(at)).unwrap()).collect();
    all.sort_unstable();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_gets_what_the_rule_says_and_no_more() {
    let server = RedisServer::start();
    let tenth = Duration::from_millis(100);
    let run = Duration::from_secs(2);

    let bucket = quota(7, tenth).token_bucket(20).unwrap();
    let granted = hammered(&server, bucket, run).await;
    for (i, from) in granted.iter().enumerate() {
        for (n, to) in granted[i..].iter().enumerate() {
            let most = 20 + (to - from) * 7 / 100;
            assert!((n as u64) < most, "{} from {from} to {to}", n + 1);
        }
    }
    assert!(granted.len() > 80, "20 and 7 every 100 ms: {}", granted.len());

    let _: String = server.cli(&["FLUSHALL"]);
    let granted = hammered(&server, quota(7, tenth).fixed_window(), run).await;
    let mut windows: HashMap<u64, u32> = HashMap::new();
    for at in &granted {
        *windows.entry(at / 100).or_default() += 1;
    }
    assert!(windows.values().all(|permits| *permits <= 7), "{windows:?}");
    assert!(granted.len() > 80, "7 every 100 ms: {}", granted.len());

    let _: String = server.cli(&["FLUSHALL"]);
    let granted = hammered(&server, quota(8, tenth).leaky_bucket().unwrap(), run).await;
    let closest = granted.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
    assert!(closest >= 12, "one every 12.5 ms: {closest}");
    assert!(granted.len() > 60, "{}", granted.len());
}

#[tokio::test]
async fn a_window_is_aligned_to_the_epoch() {
    let time = ManualClock::new();
    let builder = Limits::builder().memory().clock(time.clone()).no_limits_file();
    let limits = builder.build().await.unwrap();
    let limiter = limits.limiter("x", quota(2, SECOND).fixed_window());
    let first = limiter.try_acquire(2).await.unwrap();
    let end = first.at() + first.reset_after();
    assert_eq!(end.duration_since(UNIX_EPOCH).unwrap().as_millis() % 1000, 0);
    time.advance(first.reset_after() - Duration::from_millis(1));
    assert!(limiter.try_acquire(1).await.is_err());
    time.advance(Duration::from_millis(1));
    assert_eq!(limiter.try_acquire(2).await.unwrap().reset_after(), SECOND);
}
