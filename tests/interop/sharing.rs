//! One limiter used by both: made by either, by several threads and processes at once.

use std::{
    collections::HashSet,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use ratelimit_runtime::{__private::store::StateKeys, Reason};
use tests::{eventually, redis_server::RedisServer};

use crate::{
    MINUTE, limits, quota,
    redisson::{Load, Redisson},
    state::State,
};

on_each_version!(
    rust_creates_and_java_uses,
    java_creates_and_rust_uses,
    a_restart_of_rust_leaves_what_java_used,
    names_are_understood_alike,
    each_waits_for_the_permits_of_the_other,
    threads_and_processes_take_each_permit_once,
);

async fn rust_creates_and_java_uses(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let limiter = limits(&server, "").await.limiter("shared", quota(10, MINUTE));

    let decision = limiter.try_acquire(3).await.unwrap();
    assert_eq!(decision.remaining(), 7);
    assert_eq!(java.call::<String>("getConfig shared"), "OVERALL 10 60000");
    assert_eq!(java.call::<u64>("availablePermits shared"), 7);
    assert!(!java.call::<bool>("trySetRate shared OVERALL 99 60000"));
    assert!(java.call::<bool>("tryAcquire shared 4"));
    assert!(!java.call::<bool>("tryAcquire shared 4"));
    assert_eq!(limiter.available_permits().await.unwrap(), 3);
    assert_eq!(limiter.try_acquire(3).await.unwrap().remaining(), 0);

    let refusal = limiter.try_acquire(1).await.unwrap_err();
    assert_eq!(refusal.reason(), Reason::Limited);
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    let state = State::of(&server, "shared");
    state.assert_whole();
    assert_eq!((state.counter, state.log.len()), (Some(0), 3));
}

async fn java_creates_and_rust_uses(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 10 60000"));
    assert!(java.call::<bool>("tryAcquire shared 3"));

    // A process without numbers of its own goes by Java's.
    let limiter = limits(&server, "").await.configured("shared");
    let decision = limiter.try_acquire(4).await.unwrap();
    assert_eq!(decision.remaining(), 3);
    assert_eq!((decision.quota().unwrap().rate(), decision.quota().unwrap().per()), (10, MINUTE));
    assert_eq!(limiter.try_acquire(11).await.unwrap_err().reason(), Reason::ExceedsCapacity);
    assert!(!java.call::<bool>("tryAcquire shared 4"));
    assert!(java.call::<bool>("tryAcquire shared 3"));
    assert_eq!(limiter.try_acquire(1).await.unwrap_err().reason(), Reason::Limited);
    State::of(&server, "shared").assert_whole();
}

async fn a_restart_of_rust_leaves_what_java_used(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 10 60000"));
    assert!(java.call::<bool>("tryAcquire shared 10"));
    for _ in 0..3 {
        let limiter = limits(&server, "").await.limiter("shared", quota(10, MINUTE));
        assert_eq!(limiter.try_acquire(1).await.unwrap_err().reason(), Reason::Limited);
    }
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    State::of(&server, "shared").assert_whole();
}

async fn names_are_understood_alike(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let limits = limits(&server, "").await;
    for name in ["plain", "orders:42", "a{b}c", "{tag}:x", "{{u}}", "größe:ключ", "a/b?c=d&e"]
    {
        let limiter = limits.limiter(name, quota(10, MINUTE));
        assert_eq!(limiter.try_acquire(3).await.unwrap().remaining(), 7, "{name}");
        assert!(java.call::<bool>(&format!("tryAcquire {name} 7")), "{name}");
        assert!(limiter.try_acquire(1).await.is_err(), "{name}");
        let keys = StateKeys::new(name);
        let found: HashSet<String> = server.limiter_keys().into_iter().collect();
        let expected = [keys.config().to_owned(), keys.counter(), keys.log()];
        assert_eq!(found, HashSet::from(expected), "{name}");
        assert!(java.call::<bool>(&format!("delete {name}")), "{name}");
    }
}

/// A window of half a second, so that a wait is told from an answer at once.
async fn each_waits_for_the_permits_of_the_other(redisson: Redisson) {
    const PER: Duration = Duration::from_millis(500);
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let limiter = limits(&server, "").await.limiter("shared", quota(2, PER));

    limiter.try_acquire(2).await.unwrap();
    let start = Instant::now();
    assert!(java.call::<bool>("tryAcquire shared 2 5000"));
    // Java's client sleeps by a timer of up to 100 ms.
    assert!(start.elapsed() > PER - Duration::from_millis(50), "{:?}", start.elapsed());
    assert!(start.elapsed() < PER * 3, "{:?}", start.elapsed());

    let start = Instant::now();
    let decision = limiter.acquire(2).await.unwrap();
    assert!(start.elapsed() > PER - Duration::from_millis(50), "{:?}", start.elapsed());
    assert!(start.elapsed() < PER * 2, "{:?}", start.elapsed());
    assert_eq!(decision.remaining(), 0);

    // Neither waits for what it cannot get in time.
    let start = Instant::now();
    let hopeless = limiter.acquire_timeout(1, PER / 2).await.unwrap_err();
    assert_eq!(hopeless.reason(), Reason::WaitTooLong);
    assert!(start.elapsed() < PER / 4, "ours says so at once: {:?}", start.elapsed());
    assert!(!java.call::<bool>("tryAcquire shared 1 20"));
}

async fn threads_and_processes_take_each_permit_once(redisson: Redisson) {
    const RATE: u64 = 3_000;
    const HOUR_MS: u64 = 3_600_000;
    let server = RedisServer::start();
    let mut javas = [redisson.connect(&server), redisson.connect(&server)];
    let worker = |rate: u64| {
        Command::new(env!("CARGO_BIN_EXE_worker"))
            .args([&server.url(), "shared", &rate.to_string(), &HOUR_MS.to_string()])
            .args(["reset", "4", "60000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // It exists before anybody starts, as Redisson asks for.
    assert!(javas[0].call::<bool>(&format!("trySetRate shared OVERALL {RATE} {HOUR_MS}")));
    javas.iter_mut().for_each(|java| java.begin("load shared 4 2000 try 1"));
    let workers = [worker(RATE), worker(RATE)];
    let loads = javas.each_mut().map(|java| java.answer::<Load>());
    eventually("every permit is taken", Duration::from_secs(30), || {
        State::of(&server, "shared").counter == Some(0)
    });
    // Their inputs end with this.
    let by_rust = workers.map(|worker| {
        let output = worker.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| line.starts_with("admitted")).count() as u64
    });
    for load in &loads {
        assert_eq!((load.errors, &*load.first_error), (0, ""));
    }
    let by_java = loads[0].granted + loads[1].granted;
    let by_rust: u64 = by_rust.iter().sum();
    assert_eq!(by_java + by_rust, RATE, "{by_java} by Java, {by_rust} by Rust");
    let state = State::of(&server, "shared");
    state.assert_whole();
    assert_eq!(state.counter, Some(0));
}
