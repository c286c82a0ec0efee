//! What lies in Redis: byte for byte what Redisson writes, bounded, and healed where it is not.

#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "state/absurd.rs"]
mod absurd;
#[path = "state/unsupported.rs"]
mod unsupported;

use std::time::Duration;

use ratelimit_runtime::{Limiter, Limits, Quota, RateChange, Reason};
use redis::Connection;
use tests::redis_server::RedisServer;

const MINUTE: Duration = Duration::from_secs(60);

fn quota(rate: u32) -> Quota {
    Quota::new(rate.into(), MINUTE).unwrap()
}

async fn limits(server: &RedisServer) -> Limits {
    let builder = Limits::builder().redis(server.url()).no_limits_file();
    builder.deadline(Duration::from_secs(5)).build().await.unwrap()
}

/// A member as Redisson writes it: the id's length, the id, the permits.
fn member(id: &[u8], permits: u32) -> Vec<u8> {
    let mut member = vec![u8::try_from(id.len()).unwrap()];
    member.extend(id);
    member.extend(permits.to_le_bytes());
    member
}

fn now_ms(server: &RedisServer) -> u64 {
    let (seconds, micros): (u64, u64) = server.cli(&["TIME"]);
    seconds * 1000 + micros / 1000
}

/// Writes a whole limiter the way a Java service does.
fn java(server: &RedisServer, name: &str, rate: u64, log: &[(u64, Vec<u8>)], used: i64) {
    let mut connection = server.connect().unwrap();
    let rate_text = rate.to_string();
    let _: i64 = server.cli(&[
        "HSET",
        name,
        "rate",
        &rate_text,
        "interval",
        "60000",
        "type",
        "0",
        "keepAliveTime",
        "0",
    ]);
    let counter = (i64::try_from(rate).unwrap() - used).to_string();
    let _: String = server.cli(&["SET", &format!("{{{name}}}:value"), &counter]);
    for chunk in log.chunks(1000) {
        let mut add = redis::cmd("ZADD");
        add.arg(format!("{{{name}}}:permits"));
        for (score, member) in chunk {
            add.arg(score).arg(member);
        }
        add.exec(&mut connection).unwrap();
    }
}

fn log(connection: &mut Connection, name: &str) -> Vec<(Vec<u8>, f64)> {
    redis::cmd("ZRANGE")
        .arg(format!("{{{name}}}:permits"))
        .arg(0)
        .arg(-1)
        .arg("WITHSCORES")
        .query(connection)
        .unwrap()
}

fn permits(member: &[u8]) -> i64 {
    u32::from_le_bytes(member[member.len() - 4..].try_into().unwrap()).into()
}

/// Counter and log add up to the rate.
fn assert_whole(server: &RedisServer, name: &str, rate: i64) {
    let counter: i64 = server.cli(&["GET", &format!("{{{name}}}:value")]);
    let log = log(&mut server.connect().unwrap(), name);
    let used: i64 = log.iter().map(|(member, _)| permits(member)).sum();
    assert_eq!(counter + used, rate, "counter {counter} and {used} in {} members", log.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_are_redissons_byte_for_byte() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let before = now_ms(&server);
    limits.limiter("lim", quota(10)).acquire(3).await.unwrap();

    assert_eq!(server.limiter_keys(), ["lim", "{lim}:permits", "{lim}:value"]);
    let fields = ["rate", "interval", "type", "keepAliveTime"];
    let hash: Vec<String> = server.cli(&[&["HMGET", "lim"], &fields[..]].concat());
    assert_eq!(hash, ["10", "60000", "0", "0"]);
    assert_eq!(server.cli::<String>(&["GET", "{lim}:value"]), "7");
    let log = log(&mut server.connect().unwrap(), "lim");
    let (member, score) = &log[0];
    assert_eq!(log.len(), 1);
    assert_eq!(usize::from(member[0]) + 5, member.len(), "length, id, permits: {member:?}");
    assert_eq!(member[member.len() - 4..], [3, 0, 0, 0], "permits are a little-endian u32");
    assert!((before as f64..before as f64 + 5000.0).contains(score), "milliseconds: {score}");
    // A fixed key never expires, as Redisson's do not.
    for key in server.limiter_keys() {
        assert_eq!(server.cli::<i64>(&["PTTL", &key]), -1, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_names_built_at_run_time_expire_together() {
    let server = RedisServer::start();
    let builder = Limits::builder()
        .redis(server.url())
        .limits_yaml("default: { rate: 5, per: 10s }")
        .deadline(MINUTE);
    let limits = builder.build().await.unwrap();
    limits.configured("many").acquire(1).await.unwrap();
    let ttls: Vec<i64> =
        ["many", "{many}:value", "{many}:permits"].map(|key| server.cli(&["PTTL", key])).to_vec();
    assert!(ttls.iter().all(|ttl| (74_000..=75_000).contains(ttl)), "{ttls:?}");
    assert_eq!(server.cli::<String>(&["HGET", "many", "keepAliveTime"]), "60000");
}

#[test]
fn a_limiter_outlives_its_state_and_is_renewed_now_and_then() {
    use ratelimit_runtime::__private::store::{Config, Mode, Request, Rule, StateKeys};
    let server = RedisServer::start();
    let mut redis = server.connect().unwrap();
    for rule in [
        Rule::TokenBucket { burst: 1000 },
        Rule::LeakyBucket,
        Rule::FixedWindow { calendar: None },
        Rule::WarmingBucket { warm_up: Duration::from_secs(4) },
    ] {
        let config = Config::new(100, 1000, Mode::Overall).rule(rule).keep_alive_ms(2000);
        let keys = StateKeys::new(format!("{rule:?}"));
        let mut take = |permits| {
            let request = Request::new(&keys, config, tokio::time::Instant::now());
            let value = tests::decide::call(&request, &[permits], 1, false).query(&mut redis);
            let reply =
                tests::decide::all_replies(&value.unwrap(), &config, &[permits]).unwrap()[0];
            let ttl: u64 = server.cli(&["PTTL", keys.config()]);
            let kept = reply.reset_after_ms.max(2000);
            (ttl, kept)
        };
        let (ttl, kept) = take(100);
        assert!(
            (kept - 50..=(kept + config.warm_up_ms()) * 3 / 2).contains(&ttl),
            "{ttl} of {kept} by {rule:?}"
        );
        let _: () = server.cli(&["CONFIG", "RESETSTAT"]);
        for _ in 0..30 {
            let (ttl, kept) = take(1);
            assert!(
                (1900..=(kept + config.warm_up_ms()) * 3 / 2).contains(&ttl),
                "{ttl} of {kept} by {rule:?}"
            );
            std::thread::sleep(Duration::from_millis(30));
        }
        let renewals = server.calls("pexpire");
        // What few steps do not decide is renewed with each grant.
        let warms_up = matches!(rule, Rule::WarmingBucket { .. });
        assert!(warms_up || (1..=6).contains(&renewals), "{renewals} by {rule:?}");
        if let Rule::TokenBucket { .. } = rule {
            let (ttl, kept) = take(500);
            assert!(kept >= 5000 && ttl >= kept, "{ttl} of {kept}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_every_redisson_since_3_17_are_read() {
    let server = RedisServer::start();
    let now = now_ms(&server);
    // 8 random bytes until 3.20, 16 since.
    let log = [
        (now - 70_000, member(&[0, 1, 2, 3, 4, 5, 6, 7], 1)),
        (now - 30_000, member(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], 3)),
        (now - 10_000, member(&[], 2)),
    ];
    java(&server, "old", 10, &log, 6);
    let limiter = limits(&server).await.configured("old");
    assert_eq!(limiter.available_permits().await.unwrap(), 5, "one expired");
    let decision = limiter.acquire(5).await.unwrap();
    assert_eq!((decision.remaining(), decision.quota().unwrap().rate()), (0, 10));
    let refused = limiter.try_acquire(2).await.unwrap_err().retry_after().unwrap();
    assert!(refused <= Duration::from_secs(30) && refused > Duration::from_secs(28), "{refused:?}");
    assert_whole(&server, "old", 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_older_ones_are_refused_and_left_alone() {
    let server = RedisServer::start();
    // Redisson 3.13.3 to 3.16.3, and 3.16.4 to 3.16.8.
    let float = vec![0x88, 0x10, 0x89, 0xdd, 3, 0, 0, 0];
    let long = [&[8, 0, 0, 0, 0, 0, 0, 0][..], &[0, 1, 2, 3, 4, 5, 6, 7], &[3, 0, 0, 0]].concat();
    for (name, member) in [("float", float), ("long", long)] {
        java(&server, name, 10, &[(now_ms(&server), member)], 3);
        let limiter = limits(&server).await.limiter(name, quota(10));
        let rejection = limiter.try_acquire(1).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::StoreMisconfigured, "{rejection}");
        assert!(limiter.release(1).await.is_err());
        assert_eq!(log(&mut server.connect().unwrap(), name).len(), 1);
    }
}

/// What one caller sees of a limiter that was broken in some way: never more than is free.
async fn healed(server: &RedisServer, limiter: &Limiter, free: u32) {
    let mut taken = 0;
    while limiter.try_acquire(1).await.is_ok() {
        taken += 1;
    }
    assert_eq!(taken, free, "permits that are free");
    assert_whole(server, limiter.name(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_java_is_healed() {
    let server = RedisServer::start();
    let limits = limits(&server).await;
    let now = now_ms(&server);
    let id = |n: u8| [n; 16];
    // A command that was sent twice: the counter lost 2 permits for good.
    java(&server, "leaked", 10, &[(now, member(&id(1), 2))], 4);
    healed(&server, &limits.configured("leaked"), 6).await;
    // An empty log with a short counter, at which every Java acquire fails.
    java(&server, "empty", 10, &[], 7);
    healed(&server, &limits.configured("empty"), 3).await;
    // A lost counter, with which Java starts with a full one.
    java(&server, "counter", 10, &[(now, member(&id(1), 4))], 4);
    let _: i64 = server.cli(&["DEL", "{counter}:value"]);
    healed(&server, &limits.configured("counter"), 6).await;
    // A rate lowered below what is used, with the counter clamped at 0.
    java(&server, "clamped", 10, &[(now, member(&id(1), 12)), (now, member(&id(2), 5))], 10);
    healed(&server, &limits.configured("clamped"), 0).await;
    // Dated in the future by a clock that is ahead: it counts from now.
    java(&server, "ahead", 10, &[(now + 3_600_000, member(&id(1), 10))], 10);
    let limiter = limits.configured("ahead");
    for rejection in [limiter.peek(1).await.map(drop), limiter.try_acquire(1).await.map(drop)] {
        let wait = rejection.unwrap_err().retry_after().unwrap();
        assert!(wait <= MINUTE, "{wait:?}");
    }
    // A counter that outlived its hash, as a plain `SET` of Java's does.
    java(&server, "orphan", 10, &[], 7);
    let _: i64 = server.cli(&["DEL", "orphan"]);
    let limiter = limits.limiter("orphan", quota(10));
    assert_eq!(limiter.available_permits().await.unwrap(), 10);
    healed(&server, &limiter, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_permits_take_kilobytes() {
    let server = RedisServer::start();
    let limiter = limits(&server).await.limiter("big", quota(100_000));
    for _ in 0..10_000 {
        limiter.acquire(10).await.unwrap();
    }
    let bytes: u64 = server.cli(&["MEMORY", "USAGE", "{big}:permits", "SAMPLES", "0"]);
    assert!(bytes <= 8 * 1024, "{bytes} bytes");
    assert_whole(&server, "big", 100_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_of_a_peer_is_made_short_in_bounded_steps() {
    let server = RedisServer::start();
    let now = now_ms(&server);
    let long: Vec<_> = (0_u32..50_000)
        .map(|n| (now - 20_000 + u64::from(n) / 3, member(&[&n.to_le_bytes()[..]; 4].concat(), 1)))
        .collect();
    java(&server, "long", 50_000, &long, 50_000);
    let limiter = limits(&server).await.configured("long");
    let mut calls = 0;
    while server.cli::<u64>(&["ZCARD", "{long}:permits"]) > 256 {
        // A refusal is not asked for again within a second, but other numbers of permits are.
        calls += 1;
        assert!(limiter.try_acquire(calls).await.is_err(), "all are in use");
        assert!(calls < 300, "it gets shorter");
    }
    assert_whole(&server, "long", 50_000);
    assert_eq!(limiter.release(20_000).await.unwrap(), 20_000);
    assert_eq!(limiter.available_permits().await.unwrap(), 20_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_keeps_the_state_never_grants_too_much() {
    let server = RedisServer::start();
    let limiter = limits(&server).await.limiter("kept", quota(10));
    limiter.acquire(9).await.unwrap();
    assert!(limiter.update_rate(RateChange::new(quota(6)).carry()).await.unwrap());
    assert_eq!(limiter.available_permits().await.unwrap(), 0);
    assert!(limiter.try_acquire(1).await.is_err());
    assert_eq!(server.cli::<i64>(&["GET", "{kept}:value"]), -3, "9 are used of 6");
    limiter.release(4).await.unwrap();
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_given_back_wake_who_waits_here() {
    let server = RedisServer::start();
    let limiter = limits(&server).await.limiter("wake", quota(1));
    limiter.acquire(1).await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(1).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiter.is_finished());
    limiter.release(1).await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(2), waiter).await;
    assert!(woken.expect("at once, not in a minute").unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_budget_is_counted_in_the_process() {
    let server = RedisServer::start();
    let yaml = "limiters:\n  each: { rate: 3, per: 1m, mode: per_client }\n";
    for _ in 0..2 {
        let builder = Limits::builder().redis(server.url()).limits_yaml(yaml).deadline(MINUTE);
        let limiter = builder.build().await.unwrap().configured("each");
        assert_eq!(limiter.acquire(2).await.unwrap().remaining(), 1);
        assert_eq!(limiter.available_permits().await.unwrap(), 1);
        assert!(limiter.try_acquire(2).await.is_err());
        assert_eq!(limiter.release(1).await.unwrap(), 1);
        assert!(limiter.try_acquire(2).await.is_ok());
        let config = limiter.config().await.unwrap().unwrap();
        assert_eq!((config.quotas[0].rate(), config.mode), (3, ratelimit_runtime::Mode::PerClient));
    }
    assert_eq!(server.limiter_keys(), ["each"], "only the configuration is in Redis");
}

fn peer_log(now: u64, members: u32, permits: u32) -> Vec<(u64, Vec<u8>)> {
    let member =
        |n: u32| (now - u64::from(n), member(&[&n.to_le_bytes()[..]; 4].concat(), permits));
    (0..members).map(member).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_of_a_peer_counts_in_full_when_the_rule_changes() {
    let server = RedisServer::start();
    let now = now_ms(&server);
    for (name, members, left) in [("some", 300, 400), ("more", 450, 100), ("all", 600, 0)] {
        java(&server, name, 1000, &peer_log(now, members, 2), (members * 2).into());
        let bucket =
            Quota::new(1000, Duration::from_secs(3600)).unwrap().token_bucket(1000).unwrap();
        let limiter = limits(&server).await.limiter(name, quota(1000));
        assert!(limiter.update_rate(RateChange::new(bucket).carry()).await.unwrap());
        let free = limiter.available_permits().await.unwrap();
        // A permit comes back every four seconds.
        assert!((left..=left + 2).contains(&free), "{free} of {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_leaves_what_is_no_limiters_alone() {
    let server = RedisServer::start();
    java(&server, "list", 10, &[], 0);
    let _: i64 = server.cli(&["DEL", "{list}:value"]);
    let _: i64 = server.cli(&["RPUSH", "{list}:value", "mine"]);
    let limiter = limits(&server).await.limiter("list", quota(20));
    for _ in 0..2 {
        let rejection = limiter.try_acquire(1).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::StoreMisconfigured, "{rejection}");
        assert!(limiter.set_rate(quota(5)).await.is_err());
        assert!(limiter.release(1).await.is_err());
        assert!(limiter.expire(MINUTE).await.is_err());
        assert!(limiter.set_keep_alive(Some(MINUTE)).await.is_err());
    }
    assert_eq!(server.cli::<i64>(&["PTTL", "{list}:value"]), -1, "it does not expire");
    let found: Vec<String> = server.cli(&["LRANGE", "{list}:value", "0", "-1"]);
    assert_eq!(found, ["mine"]);
    assert_eq!(server.cli::<u32>(&["HGET", "list", "rate"]), 10, "nothing was written");
}
