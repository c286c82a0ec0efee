//! Numbers that no limiter writes: repaired, or reported for their limiter alone.

use ratelimit_runtime::StoreErrorKind;
use redis::{Connection, Value};
use tests::state::packed;

use super::*;

/// Numbers as people and other programs write them.
const ABSURD: [&str; 12] = [
    "1500.5",
    "1e308",
    "-1e308",
    "99999999999999999999",
    "-99999999999999999999",
    "9007199254740993",
    "9007199254740992",
    "-1",
    "inf",
    "nan",
    "soon",
    "",
];

fn bucket() -> Quota {
    quota(10).token_bucket(20).unwrap()
}

fn warm() -> Quota {
    quota(10).warming_bucket(Duration::from_secs(30)).unwrap()
}

fn rules() -> [(&'static str, Quota); 5] {
    [
        ("sliding", quota(10)),
        ("bucket", bucket()),
        ("warm", warm()),
        ("leaky", quota(10).leaky_bucket().unwrap()),
        ("window", quota(10).fixed_window()),
    ]
}

/// A call of a limiter beside a broken one is decided as ever, and so is one that shares a call to the
/// store with it.
async fn stays_alone(limits: &Limits, sound: &Limiter, broken: &Limiter, what: &str) {
    let mut calls = Vec::new();
    for n in 0..16 {
        let limiter = if n % 4 == 1 { broken } else { sound }.clone();
        calls.push(tokio::spawn(async move { (n % 4 == 1, limiter.try_acquire(1).await) }));
    }
    for call in calls {
        let (is_broken, result) = call.await.unwrap();
        match result {
            Ok(permit) => assert!(!permit.is_degraded(), "{what}: {permit:?}"),
            Err(rejection) if is_broken => assert!(
                matches!(
                    rejection.reason(),
                    Reason::Limited | Reason::ExceedsCapacity | Reason::StoreMisconfigured
                ),
                "{what}: {rejection}"
            ),
            Err(rejection) => panic!("{what} of another limiter: {rejection}"),
        }
    }
    let report = limits.report().to_string();
    assert!(!report.contains("degraded 1"), "{what}: {report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_makes_no_sense_concerns_its_limiter_alone() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let sound = limits.limiter("sound", quota(1_000_000));
    let fields = [
        "keepAliveTime",
        "rate",
        "interval",
        "type",
        "burst",
        "warm_up",
        "debt",
        "reset",
        "epoch",
        "changed",
        "recent",
        "counted",
        "compacted",
        "calendar",
    ];
    for (rule, quota) in rules() {
        for field in fields {
            for value in ABSURD {
                let name = format!("{rule}:{field}:{value}");
                let broken = limits.limiter(&name, quota);
                broken.try_acquire(1).await.unwrap();
                let _: i64 = server.cli(&["HSET", broken.name(), field, value]);
                stays_alone(&limits, &sound, &broken, &name).await;
                // None of these raises, either.
                let _ = broken.available_permits().await;
                let _ = broken.release(1).await;
                let _ = broken.charge(1).await;
                let _ = broken.config().await;
                stays_alone(&limits, &sound, &broken, &name).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_makes_no_sense_concerns_its_limiter_alone() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let sound = limits.limiter("sound", quota(1_000_000));
    let mut redis = server.connect().unwrap();
    let mut states: Vec<Vec<u8>> = ABSURD.iter().map(|value| value.bytes().collect()).collect();
    let now = now_ms(&server);
    for (letter, sound, text) in [
        (b'b', &[now, 1, 10, 60_000, now, now][..], ""),
        (b'b', &[now, 1, 10, 60_000, now, 0, 1, now, 1, 1, 1, now, 0, 0, now, 1], ""),
        (b'f', &[now - now % 60_000, 3, 60_000], ""),
        (b'f', &[now - now % 60_000, 3, 60_000], "day@UTC"),
        (b'o', &[now - now % 60_000, 10, 60_000, 3, now + 60_000], ""),
        (b'w', &[now, 1, 1, 10, 60_000, 30_000, now, now], ""),
        (b'x', &[now], ""),
    ] {
        for n in 0..sound.len() {
            for absurd in
                [0, 1, now - now % 60_000, 99_999_999_999_999, 1 << 52, 1 << 53, (1 << 56) - 1]
            {
                let mut numbers = sound.to_vec();
                numbers[n] = absurd;
                states.push(packed(letter, &numbers, text));
            }
            states.push(packed(letter, &sound[..n], text));
        }
        states.push(packed(letter, sound, "fortnight"));
    }
    for (rule, quota) in rules() {
        for (n, state) in states.iter().enumerate() {
            let broken = limits.limiter(&format!("{rule}:{n}"), quota);
            broken.try_acquire(1).await.unwrap();
            redis::cmd("HSET").arg(broken.name()).arg("state").arg(state).exec(&mut redis).unwrap();
            let what = format!("{rule}: {state:?}");
            stays_alone(&limits, &sound, &broken, &what).await;
            let _ = broken.available_permits().await;
            let _ = broken.release(1).await;
            let _ = broken.charge(1).await;
            stays_alone(&limits, &sound, &broken, &what).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_makes_no_sense_concerns_its_limiter_alone() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let sound = limits.limiter("sound", quota(1_000_000));
    for (rule, quota) in rules() {
        for value in ABSURD.iter().chain(&["11", "9.5"]) {
            let broken = limits.limiter(&format!("{rule}:{value}"), quota);
            broken.try_acquire(1).await.unwrap();
            let counter = format!("{{{}}}:value", broken.name());
            let _: String = server.cli(&["SET", &counter, value, "KEEPTTL"]);
            stays_alone(&limits, &sound, &broken, &format!("{rule}: {value}")).await;
            let _ = broken.available_permits().await;
            let _ = broken.release(1).await;
            let _ = broken.charge(1).await;
            stays_alone(&limits, &sound, &broken, &format!("{rule}: {value}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_far_below_its_log_is_healed_after_a_window() {
    // More permits were missing than a member of the log can hold, so they were missing for ever.
    let server = RedisServer::start();
    let limits = limits(&server).await;
    for counter in ["-4294967285", "-4294967286", "-5000000000", "-9007199254740992"] {
        let limiter = limits.limiter(counter, Quota::new(10, Duration::from_millis(500)).unwrap());
        limiter.try_acquire(1).await.unwrap();
        let _: String = server.cli(&["SET", &format!("{{{counter}}}:value"), counter]);
        let rejection = limiter.try_acquire(2).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::Limited, "{counter}: {rejection}");
        assert_whole(&server, counter, 10);
        tokio::time::sleep(rejection.retry_after().unwrap()).await;
        assert_eq!(limiter.try_acquire(2).await.unwrap().remaining(), 8, "{counter}");
        assert_whole(&server, counter, 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keep_alive_with_a_fraction_is_repaired() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let limiter = limits.limiter("odd", quota(10));
    limiter.try_acquire(1).await.unwrap();
    let _: i64 = server.cli(&["HSET", "odd", "keepAliveTime", "1500.5"]);
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 8);
    assert_eq!(server.cli::<String>(&["HGET", "odd", "keepAliveTime"]), "0");
    assert_whole(&server, "odd", 10);
}

/// Lua keeps its sign, and no number of ours has one.
#[tokio::test]
async fn a_negative_zero_is_zero() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let limiter = limits.limiter("zero", quota(10));
    limiter.try_acquire(2).await.unwrap();
    server.cli::<u64>(&["HSET", "zero", "keepAliveTime", "-0"]);
    assert_eq!(limiter.config().await.unwrap().unwrap().keep_alive, None);
    assert_eq!(limiter.release(1).await.unwrap(), 1);
    server.cli::<u64>(&["HSET", "zero", "rate", "-0"]);
    assert_eq!(limiter.config().await.unwrap().unwrap().quotas[0].rate(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_date_in_the_log_that_makes_no_sense_is_now() {
    let server = RedisServer::start();
    for (n, score) in ["inf", "-inf", "1e308", "-1e308", "99999999999999999999"].iter().enumerate()
    {
        let name = format!("dated:{n}");
        java(&server, &name, 10, &[], 4);
        let mut add = redis::cmd("ZADD");
        add.arg(format!("{{{name}}}:permits")).arg(score).arg(member(&[7; 16], 4));
        add.exec(&mut server.connect().unwrap()).unwrap();
        let limiter = limits(&server).await.configured(&name);
        let past = if score.starts_with('-') { 4 } else { 0 };
        let mut taken = 0;
        while limiter.try_acquire(1).await.is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 6 + past, "{score}");
        let wait = limiter.try_acquire(1).await.unwrap_err().retry_after().unwrap();
        assert!(wait <= MINUTE, "{score}: {wait:?}");
        assert_whole(&server, &name, 10);
    }
}

/// Runs the commands in one go and returns the last reply.
fn at_once(redis: &mut Connection, commands: &[redis::Cmd]) -> Value {
    let mut pipe = redis::pipe();
    commands.iter().for_each(|command| {
        pipe.add_command(command.clone());
    });
    let replies: Vec<Value> = pipe.query(redis).unwrap();
    replies.into_iter().next_back().unwrap()
}

#[test]
fn a_grant_in_the_last_millisecond_of_an_expiry_leaves_no_key_behind() {
    use ratelimit_runtime::__private::store::{Config, Mode, Reconciled, Request, Rule, StateKeys};
    let server = RedisServer::start();
    let mut redis = server.connect().unwrap();
    let config = Config::new(10, 60_000, Mode::Overall);
    let configs = [
        config,
        config.rule(Rule::TokenBucket { burst: 10 }),
        config.rule(Rule::LeakyBucket),
        config.rule(Rule::FixedWindow { calendar: None }),
    ];
    let mut in_time = Vec::new();
    for n in 0..4_000_usize {
        let (config, keys) = (configs[n % 4], StateKeys::new(format!("last:{n}")));
        let request = Request::new(&keys, config, tokio::time::Instant::now());
        let call = tests::decide::call(&request, &[1], 1, false);
        call.exec(&mut redis).unwrap();
        // Some of the keys are over, and some are in their last millisecond.
        let on = |command: &str, key: &str| redis::cmd(command).arg(key).clone();
        let expire = |key| on("PEXPIRE", key).arg(1 + n / 4 % 2).clone();
        let mut commands =
            vec![expire(keys.config()), expire(&keys.counter()), expire(&keys.log())];
        if n / 8 % 2 == 0 {
            commands.push(on("DEL", &keys.counter()));
        }
        if n / 16 % 2 == 0 {
            commands.push(on("DEL", &keys.log()));
        }
        commands.push(call);
        let value = at_once(&mut redis, &commands);
        let reply = tests::decide::all_replies(&value, &config, &[1]).unwrap()[0];
        if reply.reconciled != Some(Reconciled::Created) {
            in_time.push(keys);
        }
    }
    std::thread::sleep(Duration::from_millis(20));
    assert!(in_time.len() > 100, "{} were decided before the hash was over", in_time.len());
    for keys in in_time {
        let left: i64 = server.cli(&["EXISTS", keys.config(), &keys.counter(), &keys.log()]);
        assert_eq!(left, 0, "{}", keys.config());
    }
}

/// Numbers that a store holds, or a test asks for: arithmetic saturates, and nothing panics.
#[tokio::test]
async fn numbers_beyond_what_can_be_counted_saturate_in_this_process() {
    use ratelimit_runtime::{
        __private::store::{
            Assertion, Charge, Config, Grant, KeepState, MemoryStore, Mode, OnDrift, Outcome,
            Request, Rule, StateKeys, Store, WriteWhen,
        },
        test_util::ManualClock,
    };
    use tests::decide::Decide;

    let since = tokio::time::Instant::now();
    let most = [1, 2, 1 << 32, 1 << 52, 1 << 53, u64::MAX - 1, u64::MAX];
    let clock = ManualClock::new();
    let store = MemoryStore::new(clock.clone().into());
    let rules = [
        Rule::SlidingWindow,
        Rule::TokenBucket { burst: u32::MAX },
        Rule::WarmingBucket { warm_up: Duration::from_millis(u64::MAX) },
        Rule::WarmingBucket { warm_up: Duration::from_millis(1 << 52) },
        Rule::LeakyBucket,
        Rule::FixedWindow { calendar: None },
    ];
    let mut configs = Vec::new();
    for rule in rules {
        for (rate, per) in most.iter().flat_map(|rate| most.map(|per| (*rate, per))) {
            let config = Config::new(rate, per, Mode::Overall).rule(rule);
            configs.push(config.keep_alive_ms(u64::MAX));
        }
    }
    // All of them over the state that the one before left, too.
    for (n, config) in configs.iter().enumerate() {
        for name in ["one", &format!("own:{n}")] {
            let keys = StateKeys::new(name);
            let request = Request::new(&keys, *config, since);
            let first = request.assertion(Assertion::First(OnDrift::Carry));
            let write = store.write(&keys, *config, WriteWhen::Always, KeepState::Keep, u64::MAX);
            write.await.unwrap();
            let reply = store.acquire(&first, 1).await.unwrap();
            if reply.outcome == Outcome::Granted {
                store.give_back(&keys, &Grant::of(&reply, 1, 0)).await.unwrap();
            }
            store.acquire_all(&request, &[1, u32::MAX, 2, 2]).await.unwrap();
            store.peek(&request, u32::MAX).await.unwrap();
            store.reserve(&request, &[1, u32::MAX, 1], u64::MAX).await.unwrap();
            store.charge(&request, Charge::new(u32::MAX, None)).await.unwrap();
            store.charge(&request, Charge::new(u32::MAX, Some(u64::MAX))).await.unwrap();
            clock.advance(Duration::from_millis(7));
            store.release(&keys, u32::MAX).await.unwrap();
            store.release(&keys, 1).await.unwrap();
            store.read(&keys).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_that_cannot_be_read_keeps_no_other_from_a_refund() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    for (n, broken) in ["first", "second"].into_iter().enumerate() {
        let of = |name: &str| limits.limiter(&format!("{n}:{name}"), quota(3));
        let permit = of("first").and(of("second")).try_acquire(2).await.unwrap();
        let _: i64 = server.cli(&["HSET", &format!("{n}:{broken}"), "state", "of no limiter"]);
        let error = permit.give_back().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        let other = if broken == "first" { "second" } else { "first" };
        assert_eq!(of(other).available_permits().await.unwrap(), 3, "{broken} is broken");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_frees_no_more_than_it_says_after_the_log_was_lost() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let limiter = limits.limiter("lost", quota(10));
    limiter.try_acquire(7).await.unwrap();
    let _: i64 = server.cli(&["DEL", "{lost}:permits"]);
    limiter.try_acquire(1).await.unwrap();
    for (permits, released, free) in [(3, 3, 5), (0, 0, 5), (9, 5, 10)] {
        assert_eq!(limiter.release(permits).await.unwrap(), released, "of {permits}");
        assert_eq!(limiter.available_permits().await.unwrap(), free, "after {permits}");
    }
    assert_whole(&server, "lost", 10);
}
