//! The bytes themselves: what each side writes, and that the other reads it.

use std::{collections::BTreeMap, time::Duration};

use ratelimit_runtime::{__private::store::StateKeys, Limiter, Limits, Reason, StoreErrorKind};
use redis::Connection;
use tests::redis_server::RedisServer;

use crate::{
    MINUTE,
    direct::Direct,
    limits, quota,
    redisson::Redisson,
    state::{Entry, State, member},
};

on_each_version!(
    rust_writes_what_it_always_wrote,
    java_writes_what_it_always_wrote,
    java_reads_the_permits_rust_took,
    rust_reads_the_permits_java_took,
    java_reads_what_rust_merged,
    rust_shortens_the_log_of_java,
    a_log_written_by_hand_is_read_alike,
);

/// Half a second: long enough to fill it, short enough to wait for its end.
const PER: Duration = Duration::from_millis(500);

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(field, value)| (field.to_owned(), value.to_owned())).into()
}

async fn rust_writes_what_it_always_wrote(redisson: Redisson) {
    let server = RedisServer::start();
    let limiter = limits(&server, "").await.limiter("shared", quota(10, MINUTE));
    limiter.try_acquire(3).await.unwrap();
    let state = State::of(&server, "shared");
    let epoch = state.epoch.unwrap();
    assert!(epoch.names("10/60000/0") && epoch.revision.is_empty(), "{epoch:?}");
    assert!(epoch.since_us / 1000 <= epoch.beat_ms && epoch.member > 0, "{epoch:?}");
    let redissons = [("rate", "10"), ("interval", "60000"), ("type", "0"), ("keepAliveTime", "0")];
    assert_eq!(state.config, pairs(redissons));
    assert_eq!(server.cli::<String>(&["GET", "{shared}:value"]), "7");
    let [Entry { member, at_ms }] = &state.log[..] else { panic!("{:?}", state.log) };
    // u8 length, an id of so many bytes, u32 permits.
    let id = usize::from(member[0]);
    assert_eq!((member.len(), &member[1 + id..]), (id + 5, &[3, 0, 0, 0][..]));
    assert!(at_ms.fract() == 0.0 && *at_ms > 1.7e12, "{at_ms}");

    // To Java it is a limiter like any other.
    let mut java = redisson.connect(&server);
    assert_eq!(java.call::<String>("getConfig shared"), "OVERALL 10 60000");
    assert_eq!(java.call::<u64>("availablePermits shared"), 7);
}

/// One byte with the length of the random part, that many bytes, the permits in four.
async fn java_writes_what_it_always_wrote(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 10 60000"));
    let mut fields = pairs([("rate", "10"), ("interval", "60000"), ("type", "0")]);
    if redisson.since(3, 38) {
        fields.insert("keepAliveTime".to_owned(), "0".to_owned());
    }
    assert!(java.call::<bool>("tryAcquire shared 3"));
    let state = State::of(&server, "shared");
    assert_eq!(state.config, fields);
    assert_eq!(state.counter, Some(7));
    let [Entry { member, .. }] = &state.log[..] else { panic!("{:?}", state.log) };
    let random = if redisson.since(3, 21) { 16 } else { 8 };
    assert_eq!((member.len(), usize::from(member[0])), (random + 5, random));
    assert_eq!(member[1 + random..], [3, 0, 0, 0]);
}

async fn java_reads_the_permits_rust_took(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let limiter = limits(&server, "").await.limiter("shared", quota(100_000, PER));
    for permits in [1, 2, 255, 256, 70_000] {
        limiter.try_acquire(permits).await.unwrap();
    }
    assert_eq!(java.call::<u64>("availablePermits shared"), 100_000 - 70_514);
    tokio::time::sleep(PER).await;
    assert_eq!(java.call::<u64>("availablePermits shared"), 100_000);
    assert!(java.call::<bool>("tryAcquire shared 100000"));
    State::of(&server, "shared").assert_whole();
}

async fn rust_reads_the_permits_java_took(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let limiter = limits(&server, "").await.limiter("shared", quota(100_000, PER));
    limiter.try_acquire(1).await.unwrap();
    for permits in [1, 255, 256, 70_000] {
        assert!(java.call::<bool>(&format!("tryAcquire shared {permits}")));
    }
    let refusal = limiter.try_acquire(100_000).await.unwrap_err();
    let wait = refusal.retry_after().unwrap();
    assert!(wait <= PER, "{wait:?}");
    tokio::time::sleep(wait).await;
    assert_eq!(limiter.try_acquire(100_000).await.unwrap().remaining(), 0, "an exact wait");
    State::of(&server, "shared").assert_whole();
}

/// Beyond 64 members our permits share members dated at the end of a bucket.
async fn java_reads_what_rust_merged(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    // Long enough for a slow machine to take them all within it.
    let per = 16 * PER;
    let limiter = limits(&server, "").await.limiter("shared", quota(2_000, per));
    for _ in 0..500 {
        limiter.try_acquire(1).await.unwrap();
    }
    let state = State::of(&server, "shared");
    state.assert_whole();
    assert!(state.log.len() < 200, "{} members", state.log.len());
    assert_eq!(java.call::<u64>("availablePermits shared"), 1_500);
    assert!(java.call::<bool>("tryAcquire shared 1500"));
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    State::of(&server, "shared").assert_whole();
    // A fiftieth of the window later than the last of them at most.
    tokio::time::sleep(per + per / 50).await;
    assert!(java.call::<bool>("tryAcquire shared 2000"));
    State::of(&server, "shared").assert_whole();
}

async fn rust_shortens_the_log_of_java(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 4000 20000"));
    let load: crate::redisson::Load = java.call("load shared 8 600 try 1");
    assert!(load.granted > 300, "{load:?}");
    let before = State::of(&server, "shared");
    before.assert_whole();
    assert_eq!(u64::try_from(before.log.len()).unwrap(), load.granted);

    // What is younger than a bucket, a fiftieth of the window, stays as it is.
    tokio::time::sleep(Duration::from_millis(400)).await;
    // It is walked when our call needs more than the counter has.
    let rust = Direct::of(&server, &quota(4_000, Duration::from_secs(20)));
    for _ in 0..before.log.len() / 200 + 2 {
        assert!(!rust.try_acquire(4_000).await);
    }
    let after = State::of(&server, "shared");
    after.assert_whole();
    assert_eq!(after.used(), before.used(), "nothing is taken and nothing lost");
    assert!(after.log.len() < 260, "{} members of {}", after.log.len(), before.log.len());
    let free = 4_000 - load.granted;
    assert_eq!(java.call::<u64>("availablePermits shared"), free);
    assert!(java.call::<bool>(&format!("tryAcquire shared {free}")) || free == 0);
    State::of(&server, "shared").assert_whole();
}

/// Members with ids of any length, and large and small numbers of permits.
async fn a_log_written_by_hand_is_read_alike(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let random: Vec<u8> = (0..=255).collect();
    let golden = member(&random[..16], 3);
    assert_eq!(golden[..3], [0x10, 0x00, 0x01]);
    assert_eq!(golden[16..], [0x0f, 3, 0, 0, 0]);
    let ours = limits(&server, "").await;
    for id in [0, 4, 8, 16, 63, 255] {
        for permits in [1, 3, 256, 1 << 31] {
            let keys = StateKeys::new("shared");
            let mut redis = server.connect().unwrap();
            let rate = (1_u64 << 31) + 10;
            write_hash(&mut redis, &keys, rate, 60_000);
            write_log(&mut redis, &keys, &[member(&random[..id], permits)], now_ms() - 59_900);
            let _: () = redis::cmd("SET")
                .arg(keys.counter())
                .arg(rate - u64::from(permits))
                .query(&mut redis)
                .unwrap();
            let limiter = ours.configured("shared");
            let free = rate - u64::from(permits);
            assert_eq!(limiter.available_permits().await.unwrap(), free, "{id} {permits}");
            assert_eq!(java.call::<u64>("availablePermits shared"), free, "{id} {permits}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            // The one reads it, then the other finds it gone.
            if id % 8 == 0 {
                assert_eq!(java.call::<u64>("availablePermits shared"), rate);
            }
            limiter.try_acquire(1).await.unwrap();
            State::of(&server, "shared").assert_whole();
            assert_eq!(java.call::<u64>("availablePermits shared"), rate - 1);
            limiter.delete().await.unwrap();
        }
    }
}

fn now_ms() -> u64 {
    crate::unix_ms(std::time::SystemTime::now())
}

fn write_hash(redis: &mut Connection, keys: &StateKeys, rate: u64, per_ms: u64) {
    let (rate, per_ms) = (rate.to_string(), per_ms.to_string());
    let fields = [("rate", &*rate), ("interval", &*per_ms), ("type", "0")];
    let _: () = redis::cmd("HSET").arg(keys.config()).arg(&fields).query(redis).unwrap();
}

fn write_log(redis: &mut Connection, keys: &StateKeys, members: &[Vec<u8>], at_ms: u64) {
    for member in members {
        let _: () = redis::cmd("ZADD").arg(keys.log()).arg(at_ms).arg(member).query(redis).unwrap();
    }
}

/// Layouts that versions of Redisson before 3.17 wrote, and what no limiter wrote.
const FOREIGN: [(&str, &[u8]); 4] = [
    // A float of a random number, then the permits.
    ("3.13.3", &[0x88, 0x10, 0x89, 0xdd, 3, 0, 0, 0]),
    // The length of the random bytes in eight bytes, those, then the permits.
    ("3.16.4", &[8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 3, 0, 0, 0]),
    ("nobody", b"hello"),
    ("nobody", b""),
];

#[tokio::test]
async fn foreign_members_are_an_error_and_left_alone() {
    foreign_members_are_left_alone_by(|limits| limits.limiter("shared", quota(10, MINUTE))).await;
}

#[tokio::test]
async fn foreign_members_are_an_error_without_numbers_of_our_own() {
    foreign_members_are_left_alone_by(|limits| limits.configured("shared")).await;
}

/// Alone, and between members that are sound, the oldest of which is over.
async fn foreign_members_are_left_alone_by(limiter: impl Fn(&Limits) -> Limiter) {
    for (writer, layout) in FOREIGN {
        for (age_ms, alone) in [(1_000, true), (61_000, true), (1_000, false), (61_000, false)] {
            let server = RedisServer::start();
            let keys = StateKeys::new("shared");
            let mut redis = server.connect().unwrap();
            write_hash(&mut redis, &keys, 10, 60_000);
            let _: () = redis::cmd("SET").arg(keys.counter()).arg(5).query(&mut redis).unwrap();
            write_log(&mut redis, &keys, &[layout.to_vec()], now_ms() - age_ms);
            if !alone {
                write_log(&mut redis, &keys, &[member(b"new", 1)], now_ms() - 500);
                write_log(&mut redis, &keys, &[member(b"old", 1)], now_ms() - 62_000);
            }
            let before = State::of(&server, "shared");

            let case = format!("{writer}, {age_ms} ms old, alone: {alone}");
            let limits = limits(&server, "").await;
            refuses(&limiter(&limits), &case).await;
            let mut after = State::of(&server, "shared");
            // That we announce the numbers is not part of what was there.
            after.config.retain(|field, _| before.config.contains_key(field));
            after.epoch = None;
            assert_eq!(after, before, "{case}");
        }
    }
}

async fn refuses(limiter: &Limiter, case: &str) {
    let rejection = limiter.try_acquire(1).await.expect_err(case);
    assert_eq!(rejection.reason(), Reason::StoreMisconfigured, "{case}: {rejection}");
    let text = rejection.to_string();
    assert!(text.contains("{shared}:permits") || text.contains("Redisson"), "{case}: {text}");
    let peeked = limiter.peek(1).await.expect_err(case);
    assert_eq!(peeked.reason(), Reason::StoreMisconfigured, "{case}: {peeked}");
    let available = limiter.available_permits().await.expect_err(case);
    assert_eq!(available.kind(), StoreErrorKind::Misconfigured, "{case}: {available}");
    let released = limiter.release(1).await.expect_err(case);
    assert_eq!(released.kind(), StoreErrorKind::Misconfigured, "{case}: {released}");
}

/// What `delete` is for: the limiter of an older Redisson can be made anew.
#[tokio::test]
async fn a_limiter_of_an_older_redisson_can_be_deleted() {
    let server = RedisServer::start();
    let keys = StateKeys::new("shared");
    let mut redis = server.connect().unwrap();
    write_hash(&mut redis, &keys, 10, 60_000);
    write_log(&mut redis, &keys, &[vec![0x88, 0x10, 0x89, 0xdd, 3, 0, 0, 0]], now_ms());
    let ours: Limits = limits(&server, "").await;
    let limiter = ours.limiter("shared", quota(10, MINUTE));
    assert!(limiter.try_acquire(1).await.is_err());
    assert!(limiter.delete().await.unwrap());
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 9);
}
