//! Many permits in one window: how large the log gets, and how long a script holds the server.

use std::time::Duration;

use ratelimit_runtime::Limiter;
use redis::Value;
use tests::redis_server::RedisServer;
use tokio::task::JoinSet;

use crate::{
    MINUTE, length, limits, quota,
    redisson::{Load, Redisson},
    state::State,
};

on_each_version!(what_rust_took_is_small_for_both, what_java_took_is_gone_through_in_steps);

async fn what_rust_took_is_small_for_both(redisson: Redisson) {
    let permits: u32 = length(1_000, 100_000);
    let per = Duration::from_secs(length(6, 60));
    let server = RedisServer::start();
    let scripts = Scripts::of(&server);
    let mut java = redisson.connect(&server);
    let limiter = limits(&server, "").await.limiter("shared", quota(permits, per));
    // The first call brings the script along, which the server then has.
    limiter.try_acquire(1).await.unwrap();
    let first = scripts.took();
    take(&limiter, permits - 1).await;
    let taking = scripts.took();
    let bytes: u64 = server.cli(&["MEMORY", "USAGE", "{shared}:permits", "SAMPLES", "0"]);
    let state = State::of(&server, "shared");
    state.assert_whole();
    assert_eq!(state.counter, Some(0), "all of them in one window");

    assert!(limiter.try_acquire(1).await.is_err());
    limiter.available_permits().await.unwrap();
    assert_eq!(limiter.release(permits / 2).await.unwrap(), u64::from(permits / 2));
    assert!(limiter.try_acquire(permits / 2).await.is_ok());
    let full = scripts.took();
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    let refused = scripts.took();

    tokio::time::sleep(per + per / 50).await;
    assert!(java.call::<bool>(&format!("tryAcquire shared {permits}")));
    let freed = scripts.took();
    State::of(&server, "shared").assert_whole();
    println!(
        "{redisson}: {permits} permits of one window are {} members, {bytes} bytes; scripts: \
         our first {first:?}, ours taking them {taking:?}, ours with all taken {full:?}, Java's refusal {refused:?}, \
         Java's after they are free {freed:?}",
        state.log.len(),
    );
    assert!(bytes <= 8192, "{bytes} bytes");
}

/// One by one, by many at once.
async fn take(limiter: &Limiter, permits: u32) {
    let mut callers = JoinSet::new();
    for caller in 0..50 {
        let limiter = limiter.clone();
        let share = permits / 50 + u32::from(caller < permits % 50);
        callers.spawn(async move {
            for _ in 0..share {
                limiter.try_acquire(1).await.expect("it is free");
            }
        });
    }
    callers.join_all().await;
}

/// One member a permit, as Java writes them.
async fn what_java_took_is_gone_through_in_steps(redisson: Redisson) {
    let permits: u32 = length(1_000, 20_000);
    let server = RedisServer::start();
    let scripts = Scripts::of(&server);
    let mut java = redisson.connect(&server);
    let rate = 2 * permits;
    assert!(java.call::<bool>(&format!("trySetRate shared OVERALL {rate} 60000")));
    let load: Load = java.call(&format!("load shared 8 {} try 1", length(800, 8_000)));
    assert_eq!((load.errors, &*load.first_error), (0, ""));
    let taken = load.granted;
    let members = || server.cli::<u64>(&["ZCARD", "{shared}:permits"]);
    assert_eq!(members(), taken);
    scripts.took();

    // What is younger than a bucket, a fiftieth of the window, stays as it is.
    tokio::time::sleep(MINUTE / 50).await;
    let limiter = limits(&server, "").await.limiter("shared", quota(rate, MINUTE));
    let free = u64::from(rate) - taken;
    let mut calls = 0;
    // Until it is short enough to be counted in one go, nothing is granted that needs the log.
    while members() > 256 {
        assert!(limiter.try_acquire(rate).await.is_err());
        calls += 1;
        assert!(calls < taken, "{} of {taken} members after {calls} calls", members());
    }
    let shortened = scripts.took();
    assert_eq!(limiter.available_permits().await.unwrap(), free);
    assert_eq!(java.call::<u64>("availablePermits shared"), free);
    State::of(&server, "shared").assert_whole();
    println!(
        "{redisson}: {taken} members of Java's are {} after {calls} calls: {shortened:?}",
        members(),
    );
}

/// How long scripts took, by the server's own clock.
struct Scripts<'a>(&'a RedisServer);

/// The longest is what others had to wait for, and on a busy machine what the server itself had to.
#[derive(Debug)]
#[expect(dead_code, reason = "to be printed")]
struct Took {
    median: Duration,
    longest: Duration,
}

impl<'a> Scripts<'a> {
    fn of(server: &'a RedisServer) -> Self {
        let _: String = server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        let _: String = server.cli(&["CONFIG", "SET", "slowlog-max-len", "1000000"]);
        Self(server)
    }

    /// Those since the last time this was asked.
    fn took(&self) -> Took {
        let calls: Vec<Vec<Value>> = self.0.cli(&["SLOWLOG", "GET", "-1"]);
        let _: String = self.0.cli(&["SLOWLOG", "RESET"]);
        let script = |call: &Vec<Value>| -> Option<u64> {
            let words: Vec<Vec<u8>> = redis::from_redis_value(call[3].clone()).ok()?;
            let is_script = words[0].to_ascii_uppercase().starts_with(b"EVAL");
            is_script.then(|| redis::from_redis_value(call[2].clone()).ok())?
        };
        let mut times: Vec<u64> = calls.iter().filter_map(script).collect();
        times.sort_unstable();
        let at = |index: usize| Duration::from_micros(times[index]);
        Took { median: at(times.len() / 2), longest: at(times.len() - 1) }
    }
}
