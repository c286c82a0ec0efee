//! What a caller that waits for a bucket sees.

use std::time::{Duration, UNIX_EPOCH};

use ratelimit_runtime::{Limiter, Limits, Permit, Quota, Quotas, RateChange, Reason, Rejection};
use tests::{
    limits_file::LimitsFile,
    monitor::{Entry, Monitor},
    redis_server::RedisServer,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn quota(rate: u32, per: Duration) -> Quota {
    Quota::new(rate.into(), per).unwrap()
}

async fn embedded(yaml: &str) -> Limits {
    Limits::builder().memory().limits_yaml(yaml).build().await.unwrap()
}

async fn on(server: &RedisServer) -> Limits {
    let builder = Limits::builder().redis(server.url()).no_limits_file();
    builder.deadline(5 * SECOND).build().await.unwrap()
}

type Waiter = JoinHandle<Result<Permit, Rejection>>;

/// Starts a call that has to wait, and lets it take its slot.
async fn waits(limiter: &Limiter) -> Waiter {
    let limiter = limiter.clone();
    let waiter = tokio::spawn(async move { limiter.acquire(1).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiter.is_finished(), "it waits");
    waiter
}

/// Drops a call that waits, and lets it give its slot back.
async fn drops(waiter: Waiter) {
    waiter.abort();
    assert!(waiter.await.is_err());
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn refused_for(limiter: &Limiter) -> Duration {
    limiter.try_acquire(1).await.unwrap_err().retry_after().unwrap()
}

/// When each of these costs goes, asked for one after the other, in milliseconds.
async fn waits_of(limiter: &Limiter, costs: &[u32]) -> Vec<u128> {
    let mut waits = Vec::new();
    for cost in costs {
        let start = Instant::now();
        limiter.acquire((*cost).into()).await.unwrap();
        waits.push(start.elapsed().as_millis());
    }
    waits
}

#[tokio::test(start_paused = true)]
async fn bursts_and_weights_wait_as_long_as_they_cost() {
    let limits = embedded("{}").await;
    let bursty = limits.limiter("bursty", quota(5, SECOND).token_bucket(6).unwrap());
    assert_eq!(waits_of(&bursty, &[1, 1, 3, 1, 1]).await, [0, 0, 0, 0, 200]);
    let weighted = limits.limiter("weighted", quota(8, 8 * SECOND).leaky_bucket().unwrap());
    let waits = waits_of(&weighted, &[1, 1, 2, 4, 8, 1]).await;
    assert_eq!(waits, [0, 1000, 1000, 2000, 4000, 8000]);
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_warms_up_is_slow_after_a_pause() {
    let yaml = "limiters:\n  x: { rate: 2, per: 1s, algorithm: token_bucket, warm_up: 4s }\n";
    let limits = embedded(yaml).await;
    let in_code = limits.limiter("in code", quota(2, SECOND).warming_bucket(4 * SECOND).unwrap());
    let cold = [0, 1375, 1125, 875, 625, 500, 500, 500];
    for limiter in [limits.configured("x"), in_code] {
        assert_eq!(waits_of(&limiter, &[1; 8]).await, cold);
        tokio::time::sleep(Duration::from_millis(4500)).await;
        assert_eq!(waits_of(&limiter, &[1; 8]).await, cold, "after as long a pause");
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(waits_of(&limiter, &[1; 3]).await, [0, 500, 500], "half of it is none");
        let rejection = limiter.acquire(3).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::ExceedsCapacity);
        let quota = rejection.violated().first().copied().unwrap().to_string();
        assert_eq!(quota, "2 per 1s, token bucket that warms up in 4s");
    }
}

#[tokio::test]
async fn a_warm_up_lies_beside_the_numbers_and_is_followed() {
    let server = RedisServer::start();
    let limits = on(&server).await;
    let warms_up = quota(60, HOUR).warming_bucket(HOUR).unwrap();
    limits.limiter("lim", warms_up).acquire(1).await.unwrap();
    let fields = ["algorithm", "burst", "warm_up"];
    let stored = fields.map(|field| server.cli::<Option<String>>(&["HGET", "lim", field]));
    let [algorithm, burst, warm_up] = stored;
    assert_eq!((algorithm.as_deref(), burst.as_deref()), (Some("token_bucket"), Some("0")));
    assert_eq!(warm_up.as_deref(), Some("3600000"));
    assert_eq!(server.limiter_keys(), ["lim"], "what is used is in the hash");

    let other = on(&server).await.configured("lim");
    assert!(refused_for(&other).await > Duration::from_secs(120), "cold, it takes longer");
    assert_eq!(other.quotas().unwrap()[0], warms_up);
    // Another rule counts on, and what was written for the warm-up goes with it.
    other
        .update_rate(RateChange::new(quota(60, HOUR).token_bucket(60).unwrap()).carry())
        .await
        .unwrap();
    assert_eq!(other.try_acquire(1).await.unwrap().remaining(), 60 - 4);
    assert_eq!(server.cli::<Option<String>>(&["HGET", "lim", "warm_up"]), None);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_too_long_is_refused_at_once_with_the_exact_time() {
    let limits = embedded("{}").await;
    let limiter = limits.limiter("lim", quota(1, SECOND).token_bucket(100).unwrap());
    limiter.acquire(100).await.unwrap();
    let first = limiter.clone();
    let first = tokio::spawn(async move { first.acquire(50).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let start = Instant::now();
    let rejection = limiter.acquire_timeout(10, 59 * SECOND).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::WaitTooLong);
    let wait = rejection.retry_after().unwrap();
    assert_eq!((wait, start.elapsed()), (Duration::from_millis(59_999), Duration::ZERO));
    limiter.acquire_timeout(10, wait).await.unwrap();
    assert_eq!(start.elapsed(), wait);
    assert!(first.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_slot_passes_to_the_next_caller_and_is_given_up_when_none_waits() {
    let server = RedisServer::start();
    let quota = quota(60, HOUR).leaky_bucket().unwrap();
    // A process that has just started knows what is reserved in the store alone.
    let seen_by_another = async || refused_for(&on(&server).await.limiter("lim", quota)).await;
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let within = |wait: Duration, n: u64| minutes(n) - 5 * SECOND < wait && wait <= minutes(n);
    let limiter = on(&server).await.limiter("lim", quota);
    limiter.acquire(1).await.unwrap();
    let [first, second, third] =
        [waits(&limiter).await, waits(&limiter).await, waits(&limiter).await];
    assert!(within(seen_by_another().await, 2), "of three that wait, one has a slot");
    for leaves in [third, first] {
        drops(leaves).await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert!(within(seen_by_another().await, 2), "the next one has it");
    }
    drops(second).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(within(seen_by_another().await, 1), "none waits");
}

#[tokio::test]
async fn who_waits_goes_no_later_than_in_its_slot_whatever_becomes_of_the_limiter() {
    let server = RedisServer::start();
    let limits = on(&server).await;
    let limiter = limits.limiter("lim", quota(1, SECOND).leaky_bucket().unwrap());
    limiter.acquire(1).await.unwrap();
    let start = Instant::now();
    let waiter = waits(&limiter).await;
    limiter.release(2).await.unwrap();
    limiter.update_rate(quota(1, HOUR).leaky_bucket().unwrap()).await.unwrap();
    limiter.delete().await.unwrap();
    waiter.await.unwrap().unwrap();
    let passed = start.elapsed();
    // What is reset or deleted is free at once.
    assert!(passed < 2 * SECOND, "{passed:?}");
}

#[tokio::test]
async fn a_change_that_frees_permits_admits_waiting_calls_at_once() {
    let server = RedisServer::start();
    for (redis, algorithm) in [false, true]
        .into_iter()
        .flat_map(|redis| ["token_bucket", "leaky_bucket"].map(|a| (redis, a)))
    {
        for change in ["disabled", "reset by a file", "set_rate", "delete"] {
            let yaml = |settings: &str| {
                format!(
                    "deadline: 20s\nlimiters:\n  x: {{ per: 1h, algorithm: {algorithm}, {settings} }}\n"
                )
            };
            let (file, prefix) =
                (LimitsFile::new(&yaml("rate: 1")), format!("{algorithm}:{change}:"));
            let builder = Limits::builder().limits_file(file.path()).key_prefix(&prefix);
            let builder = if redis { builder.redis(server.url()) } else { builder.memory() };
            let limits = builder.build().await.unwrap();
            let limiter = limits.configured("x");
            limiter.acquire(1).await.unwrap();
            let waiters = [waits(&limiter).await, waits(&limiter).await];
            let reload = |settings: &str| {
                file.write(&yaml(settings));
                limits.reload().unwrap();
            };
            match change {
                "disabled" => reload("rate: 1, enabled: false"),
                "reset by a file" => reload("rate: 7200000"),
                "set_rate" => {
                    let fast = quota(7_200_000, HOUR);
                    let fast = match algorithm {
                        "token_bucket" => fast.token_bucket(7_200_000),
                        _ => fast.leaky_bucket(),
                    };
                    limiter.set_rate(fast.unwrap()).await.unwrap();
                }
                _ => assert!(limiter.delete().await.unwrap()),
            }
            let admitted = if change == "delete" { 1 } else { 2 };
            for waiter in waiters.into_iter().take(admitted) {
                let call = timeout(10 * SECOND, waiter).await;
                call.unwrap_or_else(|_| panic!("{prefix} {redis}")).unwrap().unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_shadow_mode_whoever_waits_goes_at_once_and_gives_its_slot_back() {
    let text = |shadow| {
        format!(
            "limiters:\n  x: {{ rate: 1, per: 1h, algorithm: leaky_bucket, shadow: {shadow} }}\n"
        )
    };
    let file = std::env::temp_dir().join(format!("ratelimit-slots-{}.yaml", std::process::id()));
    std::fs::write(&file, text(false)).unwrap();
    let limits = Limits::builder().memory().limits_file(&file).build().await.unwrap();
    let limiter = limits.configured("x");
    limiter.acquire(1).await.unwrap();
    let waiter = waits(&limiter).await;
    std::fs::write(&file, text(true)).unwrap();
    limits.reload().unwrap();
    std::fs::remove_file(&file).unwrap();
    let decision = waiter.await.unwrap().unwrap();
    assert!(decision.shadowed().is_some(), "{decision:?}");
    tokio::time::sleep(HOUR).await;
    assert!(limiter.try_acquire(1).await.unwrap().shadowed().is_none(), "the slot was given back");
}

#[tokio::test]
async fn a_call_that_needs_no_wait_is_the_one_call_it_always_was() {
    let server = RedisServer::start();
    let limits = on(&server).await;
    let limiter = limits.limiter("lim", quota(9, HOUR).token_bucket(9).unwrap());
    limiter.acquire(1).await.unwrap();
    let monitor = Monitor::start(&server);
    for _ in 0..3 {
        limiter.acquire(1).await.unwrap();
    }
    let entries = monitor.finish();
    let calls = entries.iter().filter(|entry| entry.command() == "EVALSHA");
    assert_eq!(calls.count(), 3);
}

/// ```sh
/// cargo test -p tests --test reservations at_once -- --nocapture
/// ```
#[tokio::test]
async fn many_that_wait_at_once_take_a_call_each_at_most() {
    const CALLERS: u64 = 256;
    let server = RedisServer::start();
    let limiter = on(&server).await.limiter("lim", quota(200, SECOND).leaky_bucket().unwrap());
    limiter.acquire(1).await.unwrap();
    let monitor = Monitor::start(&server);
    let start = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(1).await.unwrap().at() })
        })
        .collect();
    let mut slots = Vec::new();
    for caller in callers {
        let slot = caller.await.unwrap();
        slots.push(slot.duration_since(UNIX_EPOCH).unwrap().as_millis());
    }
    let passed = start.elapsed();
    let entries = monitor.finish();
    // A heartbeat is none of the limiter's.
    let is_call = |entry: &&Entry| entry.command() == "EVALSHA" && entry.args[3] == "lim";
    let calls = entries.iter().filter(is_call).count() as u64;
    println!("{CALLERS} callers: {calls} calls, {passed:?}");
    assert!(calls <= CALLERS + 2, "{calls} calls");
    slots.sort_unstable();
    let gaps: Vec<u128> = slots.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= 5), "no two share a slot: {gaps:?}");
    // On a busy machine a slot may pass before the next is reserved.
    let whole: u128 = gaps.iter().sum();
    assert!(whole < 5 * u128::from(CALLERS) * 3 / 2, "most of the rate is used: {gaps:?}");
}

#[tokio::test]
async fn the_local_policy_hands_out_slots_as_well() {
    let server = RedisServer::start();
    let limits = on(&server).await;
    let limiter = limits.limiter("lim", quota(4, SECOND).leaky_bucket().unwrap());
    limiter.acquire(1).await.unwrap();
    server.kill_hard();
    // Sees that the store is away.
    let _ = limiter.try_acquire(1).await;
    let start = Instant::now();
    let (first, second) = (limiter.acquire(1), limiter.acquire(1));
    let (first, second) = tokio::join!(first, second);
    assert!(first.unwrap().is_degraded() && second.unwrap().is_degraded());
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
    let waiting = timeout(Duration::from_millis(50), limiter.acquire(1));
    assert!(waiting.await.is_err(), "it waits, and gives its slot back");
    assert!(refused_for(&limiter).await <= Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn so_does_a_limiter_that_is_counted_in_each_process() {
    let yaml = "limiters:\n  x: { rate: 4, per: 1s, algorithm: leaky_bucket, mode: per_client }\n";
    let limiter = embedded(yaml).await.configured("x");
    assert_eq!(waits_of(&limiter, &[1, 2, 1]).await, [0, 250, 500]);
}

#[tokio::test(start_paused = true)]
async fn what_is_charged_takes_slots_of_its_own() {
    let limits = embedded("{}").await;
    let limiter = limits.limiter("lim", quota(4, SECOND).leaky_bucket().unwrap());
    let start = Instant::now();
    let goes = |limiter: Limiter| {
        tokio::spawn(async move {
            limiter.acquire(1).await.unwrap();
            start.elapsed().as_millis()
        })
    };
    limiter.acquire(1).await.unwrap();
    let charged = limiter.charge(2).await.unwrap();
    assert_eq!((charged.taken, charged.debt), (2, 0), "the next two slots");
    let [first, second] = [goes(limiter.clone()), goes(limiter.clone())];
    assert_eq!(first.await.unwrap(), 750, "it goes behind them");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let later = goes(limiter.clone());
    assert_eq!(second.await.unwrap(), 1000);
    assert_eq!(later.await.unwrap(), 1250, "nobody is overtaken for having waited meanwhile");
}

#[tokio::test(start_paused = true)]
async fn beside_another_limit_a_bucket_waits_in_turn() {
    let limits = embedded("{}").await;
    let bucket = quota(2, SECOND).leaky_bucket().unwrap();
    let limiter = limits.limiter("lim", Quotas::new([bucket, quota(3, HOUR)]).unwrap());
    assert_eq!(waits_of(&limiter, &[1, 1, 1]).await, [0, 500, 500]);
    let rejection = limiter.acquire_timeout(1, 2 * SECOND).await.unwrap_err();
    assert_eq!(rejection.reason(), Reason::WaitTooLong);
    assert!(limiter.peek(1).await.unwrap_err().retry_after().unwrap() > SECOND, "it took no slot");
}

#[tokio::test]
async fn a_wait_that_becomes_too_long_ends_at_once() {
    let server = RedisServer::start();
    for limits in [embedded("{}").await, on(&server).await] {
        for leaky in [false, true] {
            let rule = |quota: Quota| match leaky {
                true => quota.leaky_bucket().unwrap(),
                false => quota.token_bucket(1).unwrap(),
            };
            let name = if leaky { "leaky" } else { "token" };
            let limiter = limits.limiter(name, rule(quota(1, SECOND)));
            limiter.acquire(1).await.unwrap();
            let first = waits(&limiter).await;
            let timed = limiter.clone();
            let timed = tokio::spawn(async move { timed.acquire_timeout(1, 60 * SECOND).await });
            tokio::time::sleep(Duration::from_millis(50)).await;
            let slower = RateChange::new(rule(quota(1, HOUR))).carry();
            limiter.set_rate(slower).await.unwrap();
            first.await.unwrap().expect("it keeps its slot");
            let timed = timeout(20 * SECOND, timed).await.expect("at once").unwrap();
            let rejection = timed.unwrap_err();
            assert_eq!(rejection.reason(), Reason::WaitTooLong);
            assert!(rejection.retry_after() > Some(HOUR / 2), "{name}: {rejection}");
        }
    }
}
