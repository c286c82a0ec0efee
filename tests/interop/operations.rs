//! Every operation of one side, seen by the other.

use std::time::{Duration, Instant};

use ratelimit_runtime::{Limiter, Mode, RateChange, Reason};
use tests::redis_server::RedisServer;

use crate::{
    MINUTE, limits, quota,
    redisson::{Client, Redisson},
    state::State,
};

on_each_version!(
    java_sees_what_rust_sets,
    rust_sees_what_java_sets,
    java_sees_what_rust_changes_and_keeps,
    rust_sees_what_java_changes_and_keeps,
    java_gets_what_rust_gives_back,
    rust_gets_what_java_gives_back,
    java_sees_when_rust_lets_it_expire,
    rust_sees_when_java_lets_it_expire,
    what_is_made_again_expires_along,
    java_sees_that_rust_deleted,
    rust_sees_that_java_deleted,
    what_one_side_cannot_do_is_said_so,
);

/// Both sides of a limiter nobody has configured yet; ours has no numbers for it.
struct Pair {
    server: RedisServer,
    java: Client,
    rust: Limiter,
}

impl Pair {
    async fn start(redisson: &Redisson) -> Self {
        let server = RedisServer::start();
        let java = redisson.connect(&server);
        let rust = limits(&server, "").await.configured("shared");
        Self { server, java, rust }
    }

    fn state(&self) -> State {
        State::of(&self.server, "shared")
    }

    /// What both say is free, which is to be the same.
    #[track_caller]
    fn free(&mut self, by_rust: u64) -> u64 {
        let by_java: u64 = self.java.call("availablePermits shared");
        assert_eq!(by_java, by_rust, "(Java, Rust) disagree on what is free");
        by_rust
    }

    /// Whether the keys that are there expire in about this time, all of them, or none of them.
    #[track_caller]
    fn assert_expires(&self, within: Option<Duration>) {
        let keys = self.server.limiter_keys();
        assert!(!keys.is_empty());
        for key in keys {
            let left: i64 = self.server.cli(&["PTTL", &key]);
            match within {
                None => assert_eq!(left, -1, "{key}"),
                Some(within) => {
                    let most = i64::try_from(within.as_micros().div_ceil(1000)).unwrap();
                    assert!(left > most - 2000 && left <= most, "{key}: {left} of {most} ms");
                }
            }
        }
    }
}

async fn java_sees_what_rust_sets(redisson: Redisson) {
    let mut pair = Pair::start(&redisson).await;
    assert!(!pair.java.call::<bool>("isExists shared"));
    assert!(pair.rust.try_set_rate(quota(10, MINUTE)).await.unwrap());
    assert!(pair.java.call::<bool>("isExists shared"));
    assert_eq!(pair.java.call::<String>("getConfig shared"), "OVERALL 10 60000");
    assert!(!pair.rust.try_set_rate(quota(20, MINUTE)).await.unwrap());
    assert_eq!(pair.java.call::<String>("getConfig shared"), "OVERALL 10 60000");

    assert!(pair.java.call::<bool>("tryAcquire shared 8"));
    pair.rust.set_rate(quota(20, 2 * MINUTE)).await.unwrap();
    assert_eq!(pair.java.call::<String>("getConfig shared"), "OVERALL 20 120000");
    let free = pair.rust.available_permits().await.unwrap();
    assert_eq!(pair.free(free), 20, "what was used is forgotten, as by Java's `setRate`");
    assert!(pair.java.call::<bool>("tryAcquire shared 20"));
    assert!(pair.rust.try_acquire(1).await.is_err());
    pair.state().assert_whole();
}

async fn rust_sees_what_java_sets(redisson: Redisson) {
    let mut pair = Pair::start(&redisson).await;
    assert!(!pair.rust.exists().await.unwrap());
    assert_eq!(pair.rust.config().await.unwrap(), None);
    assert!(pair.java.call::<bool>("trySetRate shared OVERALL 10 60000"));
    assert!(pair.rust.exists().await.unwrap());
    let config = pair.rust.config().await.unwrap().unwrap();
    assert_eq!((&*config.quotas, config.mode), (&[quota(10, MINUTE)][..], Mode::Overall));
    assert!(!pair.rust.try_set_rate(quota(99, MINUTE)).await.unwrap());

    assert_eq!(pair.rust.try_acquire(8).await.unwrap().remaining(), 2);
    assert_eq!(pair.java.call::<String>("setRate shared OVERALL 20 120000"), "ok");
    let decision = pair.rust.try_acquire(1).await.unwrap();
    assert_eq!(
        (decision.quota().unwrap().rate(), decision.quota().unwrap().per()),
        (20, 2 * MINUTE)
    );
    assert_eq!(decision.remaining(), 19, "what was used is forgotten");
    let free = pair.rust.available_permits().await.unwrap();
    assert_eq!(pair.free(free), 19);
    pair.state().assert_whole();
}

async fn java_sees_what_rust_changes_and_keeps(redisson: Redisson) {
    let mut pair = Pair::start(&redisson).await;
    assert!(!pair.rust.update_rate(RateChange::new(quota(10, MINUTE)).carry()).await.unwrap());
    assert!(!pair.java.call::<bool>("isExists shared"));

    assert!(pair.rust.try_set_rate(quota(10, MINUTE)).await.unwrap());
    assert!(pair.java.call::<bool>("tryAcquire shared 4"));
    pair.rust.try_acquire(3).await.unwrap();
    assert!(pair.rust.update_rate(RateChange::new(quota(12, MINUTE)).carry()).await.unwrap());
    assert_eq!(pair.java.call::<String>("getConfig shared"), "OVERALL 12 60000");
    let free = pair.rust.available_permits().await.unwrap();
    assert_eq!(pair.free(free), 5);
    pair.state().assert_whole();

    // Less than is used: nobody gets any, and the seven that are used stay counted.
    assert!(pair.rust.update_rate(RateChange::new(quota(6, MINUTE)).carry()).await.unwrap());
    assert!(!pair.java.call::<bool>("tryAcquire shared 1"));
    assert!(pair.rust.try_acquire(1).await.is_err());
    let state = pair.state();
    state.assert_whole();
    assert_eq!((state.counter, state.used()), (Some(-1), 7));

    assert!(pair.rust.update_rate(quota(6, MINUTE)).await.unwrap());
    let free = pair.rust.available_permits().await.unwrap();
    assert_eq!(pair.free(free), 6);
}

/// Redisson 4.4 has `updateRate`, and `setRate` that keeps what was used.
async fn rust_sees_what_java_changes_and_keeps(redisson: Redisson) {
    if !redisson.since(4, 4) {
        return;
    }
    let mut pair = Pair::start(&redisson).await;
    assert!(!pair.java.call::<bool>("updateRate shared OVERALL 10 60000 0 keep"));
    assert!(!pair.rust.exists().await.unwrap());

    assert!(pair.java.call::<bool>("trySetRate shared OVERALL 10 60000"));
    assert!(pair.java.call::<bool>("tryAcquire shared 4"));
    pair.rust.try_acquire(3).await.unwrap();
    assert!(pair.java.call::<bool>("updateRate shared OVERALL 12 60000 0 keep"));
    let free = pair.rust.available_permits().await.unwrap();
    assert_eq!(pair.free(free), 5);
    assert_eq!(pair.rust.try_acquire(1).await.unwrap().quota().unwrap().rate(), 12);

    // Java counts what is above the new rate as nothing; the log still knows of all eight.
    assert_eq!(pair.java.call::<String>("setRateArgs shared OVERALL 6 60000 0 keep"), "ok");
    assert_eq!(pair.state().counter, Some(0));
    assert!(pair.rust.try_acquire(1).await.is_err());
    let state = pair.state();
    state.assert_whole();
    assert_eq!((state.counter, state.used()), (Some(-2), 8));

    assert!(pair.java.call::<bool>("updateRate shared OVERALL 7 60000 0 reset"));
    assert_eq!(pair.rust.try_acquire(7).await.unwrap().remaining(), 0);
    pair.state().assert_whole();
}

async fn java_gets_what_rust_gives_back(redisson: Redisson) {
    let mut pair = Pair::start(&redisson).await;
    assert!(pair.rust.try_set_rate(quota(10, MINUTE)).await.unwrap());
    assert!(pair.java.call::<bool>("tryAcquire shared 6"));
    pair.rust.try_acquire(4).await.unwrap();
    assert_eq!(pair.rust.release(8).await.unwrap(), 8);
    let free = pair.rust.available_permits().await.unwrap();
    assert_eq!(pair.free(free), 8);
    let state = pair.state();
    state.assert_whole();
    // The oldest went first, which were Java's six and two of ours.
    assert_eq!(state.log.iter().map(|entry| entry.permits()).collect::<Vec<_>>(), [2]);
    assert!(!pair.java.call::<bool>("tryAcquire shared 9"));
    assert!(pair.java.call::<bool>("tryAcquire shared 8"));
    assert_eq!(pair.rust.release(99).await.unwrap(), 10, "there were no more to give back");
    assert!(pair.java.call::<bool>("tryAcquire shared 10"));
    pair.state().assert_whole();
}

/// Redisson 3.52 has `release`. It raises the counter and leaves the log as it is.
async fn rust_gets_what_java_gives_back(redisson: Redisson) {
    if !redisson.since(3, 52) {
        return;
    }
    let mut pair = Pair::start(&redisson).await;
    assert!(pair.rust.try_set_rate(quota(10, MINUTE)).await.unwrap());
    assert!(pair.java.call::<bool>("tryAcquire shared 6"));
    pair.rust.try_acquire(4).await.unwrap();
    assert_eq!(pair.java.call::<String>("release shared 5"), "ok");
    let free = pair.rust.available_permits().await.unwrap();
    assert_eq!(pair.free(free), 5);
    assert_eq!(pair.rust.try_acquire(5).await.unwrap().remaining(), 0);
    assert!(pair.rust.try_acquire(1).await.is_err());
    assert!(!pair.java.call::<bool>("tryAcquire shared 1"));
}

async fn java_sees_when_rust_lets_it_expire(redisson: Redisson) {
    let mut pair = Pair::start(&redisson).await;
    let hour = Duration::from_secs(3600);
    assert!(!pair.rust.expire(hour).await.unwrap(), "there is none");
    assert!(pair.rust.try_set_rate(quota(10, MINUTE)).await.unwrap());
    assert_eq!(pair.java.call::<i64>("remainTimeToLive shared"), -1);
    assert!(pair.rust.expire(hour).await.unwrap());
    let left: i64 = pair.java.call("remainTimeToLive shared");
    assert!(left > 3_598_000 && left <= 3_600_000, "{left}");
    // Keys that come later expire along, whoever makes them, and none loses its time.
    assert!(pair.java.call::<bool>("tryAcquire shared 3"));
    pair.assert_expires(Some(hour));
    pair.rust.try_acquire(3).await.unwrap();
    pair.assert_expires(Some(hour));

    assert!(pair.rust.clear_expire().await.unwrap());
    assert_eq!(pair.java.call::<i64>("remainTimeToLive shared"), -1);
    assert!(pair.java.call::<bool>("tryAcquire shared 1"));
    pair.assert_expires(None);

    assert!(pair.rust.expire(Duration::from_millis(20)).await.unwrap());
    tokio::time::sleep(Duration::from_millis(40)).await;
    assert!(!pair.java.call::<bool>("isExists shared"));
    assert_eq!(pair.server.limiter_keys(), [""; 0]);
}

async fn rust_sees_when_java_lets_it_expire(redisson: Redisson) {
    let mut pair = Pair::start(&redisson).await;
    let hour = Duration::from_secs(3600);
    assert_eq!(pair.rust.ttl().await.unwrap(), None);
    assert!(pair.java.call::<bool>("trySetRate shared OVERALL 10 60000"));
    assert!(pair.java.call::<bool>("expire shared 3600000"));
    let left = pair.rust.ttl().await.unwrap().unwrap();
    assert!(left > hour - Duration::from_secs(2) && left <= hour, "{left:?}");
    pair.rust.try_acquire(3).await.unwrap();
    pair.assert_expires(Some(hour));
    assert!(pair.java.call::<bool>("tryAcquire shared 3"));
    pair.assert_expires(Some(hour));

    assert!(pair.java.call::<bool>("clearExpire shared"));
    assert_eq!(pair.rust.ttl().await.unwrap(), None);
    pair.rust.try_acquire(1).await.unwrap();
    pair.assert_expires(None);

    assert!(pair.java.call::<bool>("expire shared 20"));
    tokio::time::sleep(Duration::from_millis(40)).await;
    assert!(!pair.rust.exists().await.unwrap());
    assert_eq!(pair.rust.try_acquire(1).await.unwrap_err().reason(), Reason::NotConfigured);
}

/// A log is gone when nothing is used, and made anew later.
async fn what_is_made_again_expires_along(redisson: Redisson) {
    let mut pair = Pair::start(&redisson).await;
    let (hour, per) = (Duration::from_secs(3600), Duration::from_millis(60));
    assert!(pair.java.call::<bool>("trySetRate shared OVERALL 10 60"));
    assert!(pair.java.call::<bool>("tryAcquire shared 1"));
    assert!(pair.java.call::<bool>("expire shared 3600000"));
    let set = Instant::now();
    for _ in 0..3 {
        tokio::time::sleep(per).await;
        pair.rust.try_acquire(1).await.unwrap();
        pair.assert_expires(Some(hour - set.elapsed()));
        tokio::time::sleep(per).await;
        assert!(pair.java.call::<bool>("tryAcquire shared 1"));
        pair.assert_expires(Some(hour - set.elapsed()));
        tokio::time::sleep(per).await;
        // Java's own `SET` takes the expiry away.
        assert_eq!(pair.java.call::<u64>("availablePermits shared"), 10);
        pair.rust.try_acquire(1).await.unwrap();
        pair.assert_expires(Some(hour - set.elapsed()));
    }
}

async fn java_sees_that_rust_deleted(redisson: Redisson) {
    let mut pair = Pair::start(&redisson).await;
    assert!(!pair.rust.delete().await.unwrap(), "there is none");
    assert!(pair.rust.try_set_rate(quota(10, MINUTE)).await.unwrap());
    assert!(pair.java.call::<bool>("tryAcquire shared 10"));
    assert!(pair.rust.delete().await.unwrap());
    assert!(!pair.java.call::<bool>("isExists shared"));
    assert!(pair.java.fails("tryAcquire shared 1").contains("RateLimiter is not initialized"));
    assert_eq!(pair.server.limiter_keys(), [""; 0]);

    assert!(pair.java.call::<bool>("trySetRate shared OVERALL 5 60000"));
    assert_eq!(pair.rust.try_acquire(5).await.unwrap().remaining(), 0);
}

async fn rust_sees_that_java_deleted(redisson: Redisson) {
    let mut pair = Pair::start(&redisson).await;
    // This process has numbers, so that it makes the limiter anew.
    let ours = limits(&pair.server, "").await.limiter("shared", quota(10, MINUTE));
    ours.try_acquire(10).await.unwrap();
    assert!(pair.java.call::<bool>("delete shared"));
    assert!(!pair.java.call::<bool>("delete shared"));
    assert!(!ours.exists().await.unwrap());
    assert_eq!(pair.rust.try_acquire(1).await.unwrap_err().reason(), Reason::NotConfigured);
    assert_eq!(ours.try_acquire(4).await.unwrap().remaining(), 6);
    assert_eq!(pair.java.call::<String>("getConfig shared"), "OVERALL 10 60000");
    assert!(pair.java.call::<bool>("tryAcquire shared 6"));
    pair.state().assert_whole();
}

/// The operations a version of Redisson lacks are known, so that no test passes for want of one.
async fn what_one_side_cannot_do_is_said_so(redisson: Redisson) {
    let mut pair = Pair::start(&redisson).await;
    assert!(pair.rust.try_set_rate(quota(10, MINUTE)).await.unwrap());
    for (command, since) in [
        ("setRate shared OVERALL 10 60000 60000", (3, 38)),
        ("release shared 1", (3, 52)),
        ("setRateArgs shared OVERALL 10 60000 0 keep", (4, 4)),
    ] {
        pair.java.begin(command);
        let known = redisson.since(since.0, since.1);
        assert_eq!(pair.java.line() == "ok", known, "{redisson}: `{command}`");
    }
}
