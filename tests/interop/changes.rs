//! Numbers that differ: changed by Java while Rust runs, changed by Rust while Java runs, and at the
//! start of either.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ratelimit_runtime::{Event, Limits, report::Reconciled};
use tests::redis_server::RedisServer;

use crate::{
    MINUTE, limits, quota,
    redisson::{Client, Redisson},
    state::State,
};

on_each_version!(
    a_running_rust_follows_what_java_sets,
    a_refused_rust_soon_sees_what_java_frees,
    a_waiting_rust_looks_for_what_java_frees,
    a_starting_rust_wins_over_what_java_set,
    a_starting_rust_carries_what_java_used,
    a_hash_of_java_alone_is_completed,
    a_reload_of_rust_is_followed_by_java,
    the_mode_changed_by_java_is_followed,
    the_mode_changed_back_by_java_is_followed,
    the_mode_changed_by_rust_is_followed,
    per_client_budgets_are_one_for_each,
);

/// Limits with this limits file, and what they told of.
async fn observed(server: &RedisServer, yaml: &str) -> (Limits, impl Fn() -> Vec<Reconciled>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let limits = Limits::builder()
        .redis(server.url())
        .limits_yaml(yaml)
        .deadline(Duration::from_secs(2))
        .on_event(move |event| {
            if let Event::Reconciled { outcome, .. } = event {
                heard.lock().unwrap_or_else(PoisonError::into_inner).push(*outcome);
            }
        });
    let limits = limits.build().await.expect("limits");
    (limits, move || told.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

async fn a_running_rust_follows_what_java_sets(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let (limits, outcomes) = observed(&server, "").await;
    let limiter = limits.limiter("shared", quota(10, MINUTE));
    limiter.try_acquire(1).await.unwrap();
    assert_eq!(java.call::<String>("setRate shared OVERALL 20 120000"), "ok");

    let decision = limiter.try_acquire(1).await.unwrap();
    assert_eq!(
        (decision.quota().unwrap().rate(), decision.quota().unwrap().per()),
        (20, 2 * MINUTE)
    );
    assert_eq!(limiter.try_acquire(14).await.unwrap().remaining(), 5, "more than our own numbers");
    assert!(java.call::<bool>("tryAcquire shared 5"));
    for _ in 0..5 {
        assert!(limiter.try_acquire(1).await.is_err());
    }
    assert_eq!(limiter.quotas().unwrap()[0].rate(), 20);
    assert_eq!(outcomes(), [Reconciled::Followed], "said once");
    assert_eq!(java.call::<String>("getConfig shared"), "OVERALL 20 120000");

    // What everybody held before is forgotten with it, if Java says it again.
    assert_eq!(java.call::<String>("setRate shared OVERALL 4 60000"), "ok");
    assert_eq!(limiter.try_acquire(4).await.unwrap().remaining(), 0);
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    State::of(&server, "shared").assert_whole();

    // Newer versions take arguments, which say whether what was used is kept.
    let states = [("keep", 15 - 4), ("reset", 15)];
    for (state, free) in states.into_iter().filter(|_| redisson.since(4, 4)) {
        let command = format!("setRateArgs shared OVERALL 15 120000 300000 {state}");
        assert_eq!(java.call::<String>(&command), "ok");
        assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), free - 1, "{state}");
        let config = limiter.config().await.unwrap().expect("it has one");
        assert_eq!((config.quotas[0].rate(), config.keep_alive), (15, Some(5 * MINUTE)));
        assert_eq!(java.call::<u64>("availablePermits shared"), free - 1, "{state}");
        State::of(&server, "shared").assert_whole();
    }
}

/// A refusal stands for a second at most, whatever is free before its time.
async fn a_refused_rust_soon_sees_what_java_frees(redisson: Redisson) {
    let mut frees = vec![
        ("raised", vec!["setRate shared OVERALL 20 60000"]),
        ("made anew", vec!["delete shared", "trySetRate shared OVERALL 10 60000"]),
    ];
    if redisson.since(3, 52) {
        frees.push(("given back", vec!["release shared 5"]));
    }
    if redisson.since(4, 4) {
        frees.push(("raised and kept", vec!["updateRate shared OVERALL 15 60000 0 keep"]));
    }
    for (what, commands) in frees {
        let server = RedisServer::start();
        let mut java = redisson.connect(&server);
        assert!(java.call::<bool>("trySetRate shared OVERALL 10 60000"));
        let limiter = limits(&server, "").await.configured("shared");
        limiter.try_acquire(10).await.unwrap();
        assert!(limiter.try_acquire(1).await.is_err(), "{what}");

        for command in commands {
            assert_ne!(java.call::<String>(command), "false", "{what}");
        }
        let freed = Instant::now();
        while limiter.try_acquire(1).await.is_err() {
            assert!(freed.elapsed() < Duration::from_secs(2), "{what}: not seen");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn a_waiting_rust_looks_for_what_java_frees(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 10 20000"));
    let limiter = limits(&server, "").await.configured("shared");
    limiter.try_acquire(10).await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(1).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(java.call::<String>("setRate shared OVERALL 20 20000"), "ok");
    let woken = tokio::time::timeout(Duration::from_secs(4), waiter).await;
    assert!(woken.expect("after a tenth of the wait").unwrap().is_ok());
}

async fn a_starting_rust_wins_over_what_java_set(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 5 60000"));
    assert!(java.call::<bool>("tryAcquire shared 5"));

    // As a wrapper that compares, then calls `setRate`, would do.
    let (limits, outcomes) = observed(&server, "").await;
    let limiter = limits.limiter("shared", quota(10, MINUTE));
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 9);
    assert_eq!(outcomes(), [Reconciled::Reset]);
    assert_eq!(java.call::<String>("getConfig shared"), "OVERALL 10 60000");
    assert!(!java.call::<bool>("trySetRate shared OVERALL 5 60000"));
    assert!(java.call::<bool>("tryAcquire shared 9"));
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    let state = State::of(&server, "shared");
    state.assert_whole();
    assert!(state.epoch.as_ref().unwrap().names("10/60000/0"), "{state:?}");
}

async fn a_starting_rust_carries_what_java_used(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 5 60000"));
    assert!(java.call::<bool>("tryAcquire shared 5"));
    let yaml = "limiters:\n  shared: { rate: 8, per: 1m, on_drift: carry }\n";
    let (limits, outcomes) = observed(&server, yaml).await;
    let decision = limits.configured("shared").try_acquire(1).await.unwrap();
    assert_eq!(decision.remaining(), 2);
    assert_eq!(outcomes(), [Reconciled::Carried]);
    assert!(!java.call::<bool>("tryAcquire shared 3"));
    assert!(java.call::<bool>("tryAcquire shared 2"));
    State::of(&server, "shared").assert_whole();
}

/// A hash of Java's with the numbers we have is left as it is, but for what says that we vouch.
async fn a_hash_of_java_alone_is_completed(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 10 60000"));
    let before = State::of(&server, "shared").config;
    let (limits, outcomes) = observed(&server, "").await;
    limits.limiter("shared", quota(10, MINUTE)).try_acquire(1).await.unwrap();
    assert!(outcomes().is_empty(), "nothing to report");
    let State { config: after, epoch, .. } = State::of(&server, "shared");
    for field in ["rate", "interval", "type"] {
        assert_eq!(after[field], before[field]);
    }
    assert_eq!(after["keepAliveTime"], "0");
    assert!(epoch.unwrap().names("10/60000/0"));
}

async fn a_reload_of_rust_is_followed_by_java(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let file = server.data_dir().join("limits.yaml");
    let write = |rate: u32| {
        let yaml = format!("limiters:\n  shared: {{ rate: {rate}, per: 1m, on_drift: carry }}\n");
        std::fs::write(&file, yaml).unwrap();
    };
    write(10);
    let limits = Limits::builder().redis(server.url()).limits_file(&file).build().await.unwrap();
    let limiter = limits.configured("shared");
    limiter.try_acquire(2).await.unwrap();
    assert!(java.call::<bool>("tryAcquire shared 6"));

    write(9);
    limits.reload().unwrap();
    assert!(limiter.try_acquire(2).await.is_err(), "eight of nine are used");
    assert_eq!(java.call::<String>("getConfig shared"), "OVERALL 9 60000");
    assert!(!java.call::<bool>("tryAcquire shared 2"));
    assert!(java.call::<bool>("tryAcquire shared 1"));
    State::of(&server, "shared").assert_whole();
}

async fn the_mode_changed_by_java_is_followed(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    let (limits, outcomes) = observed(&server, "").await;
    let limiter = limits.limiter("shared", quota(4, MINUTE));
    limiter.try_acquire(4).await.unwrap();
    assert_eq!(java.call::<String>("setRate shared PER_CLIENT 3 60000"), "ok");

    // Each has a budget of its own from here on.
    assert_eq!(limiter.try_acquire(3).await.unwrap().remaining(), 0);
    assert!(limiter.try_acquire(1).await.is_err());
    assert!(java.call::<bool>("tryAcquire shared 3"));
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    assert_eq!(outcomes(), [Reconciled::Followed]);
}

/// Takes ten seconds, so one version will do.
async fn the_mode_changed_back_by_java_is_followed(redisson: Redisson) {
    if !redisson.since(4, 0) {
        return;
    }
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared PER_CLIENT 3 60000"));
    let limiter = limits(&server, "").await.configured("shared");
    limiter.try_acquire(3).await.unwrap();
    assert_eq!(java.call::<String>("setRate shared OVERALL 5 60000"), "ok");
    // A limiter that counts in the process looks at what is stored every ten seconds.
    let back = async {
        loop {
            match limiter.try_acquire(1).await {
                Ok(decision) if decision.quota().unwrap().rate() == 5 => return decision,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let decision = tokio::time::timeout(Duration::from_secs(15), back).await.expect("followed");
    assert_eq!(decision.remaining(), 4);
    assert!(java.call::<bool>("tryAcquire shared 4"));
    assert!(limiter.try_acquire(1).await.is_err());
}

async fn the_mode_changed_by_rust_is_followed(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 4 60000"));
    assert!(java.call::<bool>("tryAcquire shared 4"));

    let yaml = "limiters:\n  shared: { rate: 3, per: 1m, mode: per_client }\n";
    let limiter = limits(&server, yaml).await.configured("shared");
    limiter.try_acquire(3).await.unwrap();
    assert!(limiter.try_acquire(1).await.is_err());
    assert_eq!(java.call::<String>("getConfig shared"), "PER_CLIENT 3 60000");
    assert!(java.call::<bool>("tryAcquire shared 3"));
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    assert_eq!(
        own_keys(&server),
        ["{shared}:permits:ID", "{shared}:value:ID"].map(|key| key.replace("ID", &java.id))
    );

    // And back: Java's own counters are not ours to delete, and mean nothing now.
    let limiter = limits(&server, "").await.limiter("shared", quota(5, MINUTE));
    limiter.try_acquire(2).await.unwrap();
    assert!(java.call::<bool>("tryAcquire shared 3"));
    assert!(!java.call::<bool>("tryAcquire shared 1"));
}

/// One budget for each client of Java's and for each process of ours.
async fn per_client_budgets_are_one_for_each(redisson: Redisson) {
    let server = RedisServer::start();
    let (mut first, mut second) = (redisson.connect(&server), redisson.connect(&server));
    assert!(first.call::<bool>("trySetRate shared PER_CLIENT 5 60000"));
    let ours = [limits(&server, "").await, limits(&server, "").await];
    let ours = ours.map(|limits| limits.configured("shared"));

    let take = |java: &mut Client| java.call::<bool>("tryAcquire shared 5");
    assert_eq!(ours[0].try_acquire(5).await.unwrap().remaining(), 0);
    assert!(take(&mut first) && !take(&mut first));
    assert!(ours[0].try_acquire(1).await.is_err());
    assert_eq!(ours[1].available_permits().await.unwrap(), 5);
    assert_eq!(ours[1].try_acquire(5).await.unwrap().remaining(), 0);
    assert!(take(&mut second) && !take(&mut second));
    assert_eq!(first.call::<u64>("availablePermits shared"), 0);

    // What we count is in the process, so Redis has Java's keys alone.
    let mut expected: Vec<_> = [&first.id, &second.id]
        .iter()
        .flat_map(|id| [format!("{{shared}}:permits:{id}"), format!("{{shared}}:value:{id}")])
        .collect();
    expected.sort();
    assert_eq!(own_keys(&server), expected);

    if redisson.since(3, 52) {
        assert_eq!(first.call::<String>("release shared 2"), "ok");
        assert!(first.call::<bool>("tryAcquire shared 2"));
    }
    assert_eq!(ours[0].release(2).await.unwrap(), 2);
    assert_eq!(ours[0].try_acquire(2).await.unwrap().remaining(), 0);
    assert!(ours[1].try_acquire(1).await.is_err());
}

/// The keys beside the hash, sorted.
fn own_keys(server: &RedisServer) -> Vec<String> {
    let mut keys: Vec<String> = server.cli(&["KEYS", "{shared}:*"]);
    keys.sort();
    keys
}
