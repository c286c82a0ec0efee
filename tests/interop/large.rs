//! Many permits in one window: how large the log gets, and how long a script holds the server.

use std::{fmt, sync::Arc, time::Duration};

use ratelimit_runtime::RateChange;
use redis::{Value, aio::MultiplexedConnection};
use tests::redis_server::RedisServer;
use tokio::task::JoinSet;

use crate::{
    MINUTE,
    direct::Direct,
    length, limits, quota,
    redisson::{Load, Redisson},
    state::State,
};

on_each_version!(
    what_rust_took_is_small_for_both,
    what_java_took_is_gone_through_in_steps,
    what_java_took_is_carried_to_another_rate,
);

async fn what_rust_took_is_small_for_both(redisson: Redisson) {
    let permits: u32 = length(1_000, 100_000);
    let per = Duration::from_secs(length(6, 60));
    let server = RedisServer::start();
    let scripts = Scripts::of(&server);
    let mut java = redisson.connect(&server);
    let rust = Arc::new(Direct::of(&server, &quota(permits, per)));
    let control = Control::connect(&server).await;
    // The first call brings the script along, which the server then has.
    assert!(rust.try_acquire(1).await);
    let first = scripts.took();
    let longest_log = take(&rust, permits - 1, &control).await;
    let (taking, beside) = (scripts.took_by(&["evalsha"]), scripts.took_by(&[Control::COMMAND]));
    scripts.reset();
    let bytes: u64 = server.cli(&["MEMORY", "USAGE", "{shared}:permits", "SAMPLES", "0"]);
    let state = State::of(&server, "shared");
    state.assert_whole();
    assert_eq!(state.counter, Some(0), "all of them in one window");

    assert!(!rust.try_acquire(1).await);
    assert_eq!(rust.available_permits().await, 0);
    assert_eq!(rust.release(permits / 2).await, u64::from(permits / 2));
    assert!(rust.try_acquire(permits / 2).await);
    let full = scripts.took();
    assert!(!java.call::<bool>("tryAcquire shared 1"));
    let refused = scripts.took();

    tokio::time::sleep(per + per / 50).await;
    assert!(java.call::<bool>(&format!("tryAcquire shared {permits}")));
    let freed = scripts.took();
    State::of(&server, "shared").assert_whole();
    println!(
        "{redisson}: {permits} permits of one window are {} members, at most \
         {longest_log}, {bytes} bytes\n\
         our first call:             {first}\n\
         ours taking them:           {taking}\n\
         the control, between those: {beside}\n\
         ours with all taken:        {full}\n\
         Java's refusal:             {refused}\n\
         Java's after they are free: {freed}",
        state.log.len(),
    );
    assert!(bytes <= 8192, "{bytes} bytes");
    // A script of ours reads the log at most once, and rewrites no more than it read.
    assert!(longest_log <= 256, "{longest_log} members");
}

/// One by one, by many at once, each call followed by one of the control. Returns how long the log
/// was at the longest.
async fn take(rust: &Arc<Direct>, permits: u32, control: &Control) -> u64 {
    let mut callers = JoinSet::new();
    for caller in 0..50 {
        let (rust, control) = (Arc::clone(rust), control.clone());
        let share = permits / 50 + u32::from(caller < permits % 50);
        callers.spawn(async move {
            let mut longest = 0;
            for _ in 0..share {
                assert!(rust.try_acquire(1).await, "it is free");
                longest = longest.max(control.log_length().await);
            }
            longest
        });
    }
    callers.join_all().await.into_iter().max().unwrap_or(0)
}

/// One member a permit, as Java writes them.
async fn what_java_took_is_gone_through_in_steps(redisson: Redisson) {
    let permits: u32 = length(1_000, 20_000);
    let server = RedisServer::start();
    let scripts = Scripts::of(&server);
    let mut java = redisson.connect(&server);
    let rate = 2 * permits;
    assert!(java.call::<bool>(&format!("trySetRate shared OVERALL {rate} 60000")));
    let mut taken = 0;
    // A busy machine takes longer until the log is too long to be counted at once.
    while taken <= 256 {
        let load: Load = java.call(&format!("load shared 8 {} try 1", length(800, 8_000)));
        assert_eq!((load.errors, &*load.first_error), (0, ""));
        taken += load.granted;
    }
    let members = || server.cli::<u64>(&["ZCARD", "{shared}:permits"]);
    assert_eq!(members(), taken);
    scripts.took();

    // What is younger than a bucket, a fiftieth of the window, stays as it is.
    tokio::time::sleep(MINUTE / 50).await;
    let rust = Direct::of(&server, &quota(rate, MINUTE));
    let free = u64::from(rate) - taken;
    let mut calls = 0;
    // Until it is short enough to be counted in one go, nothing is granted that needs the log.
    while members() > 256 {
        assert!(!rust.try_acquire(rate).await);
        calls += 1;
        assert!(calls < taken, "{} of {taken} members after {calls} calls", members());
    }
    let shortened = scripts.took();
    assert_eq!(rust.available_permits().await, free);
    assert_eq!(java.call::<u64>("availablePermits shared"), free);
    State::of(&server, "shared").assert_whole();
    println!(
        "{redisson}: {taken} members of Java's are {} after {calls} calls: {shortened}",
        members(),
    );
}

/// A log that is too long to be counted at once counted as the whole quota: neither side was granted
/// anything, and without calls of ours Java never had more than what the log held by then.
async fn what_java_took_is_carried_to_another_rate(redisson: Redisson) {
    let server = RedisServer::start();
    let mut java = redisson.connect(&server);
    assert!(java.call::<bool>("trySetRate shared OVERALL 10000 60000"));
    let mut taken = 0;
    while taken <= 256 {
        let load: Load = java.call("load shared 4 50 try 1");
        taken += load.granted;
    }
    let operator = limits(&server, "").await.configured("shared");
    let change = RateChange::new(quota(20_000, MINUTE)).carry();
    assert!(operator.update_rate(change).await.unwrap());
    State::of(&server, "shared").assert_whole();
    assert_eq!(java.call::<u64>("availablePermits shared"), 20_000 - taken);

    let yaml = "limiters:\n  shared: { rate: 5000, per: 1m, on_drift: carry }\n";
    let limiter = limits(&server, yaml).await.configured("shared");
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 5_000 - taken - 1);
    State::of(&server, "shared").assert_whole();
    assert_eq!(java.call::<u64>("availablePermits shared"), 5_000 - taken - 1);
}

/// A script that counts to 4000, which takes about as long as ours, and touches next to nothing. How
/// long it takes at the longest is the machine's doing, not the script's.
#[derive(Clone)]
struct Control(MultiplexedConnection);

impl Control {
    /// Not the one the limiter uses, so that the server counts the two apart.
    const COMMAND: &str = "eval";

    async fn connect(server: &RedisServer) -> Self {
        let client = redis::Client::open(server.url()).expect("an address");
        Self(client.get_multiplexed_async_connection().await.expect("a connection"))
    }

    async fn log_length(&self) -> u64 {
        let mut call = redis::cmd(Self::COMMAND);
        call.arg(
            "local x = 0 for i = 1, 4000 do x = x + i end return redis.call('ZCARD', KEYS[1])",
        );
        call.arg(1).arg("{shared}:permits");
        call.query_async(&mut self.0.clone()).await.expect("the server answers")
    }
}

/// How long scripts took, by the server's own clock.
struct Scripts<'a>(&'a RedisServer);

impl<'a> Scripts<'a> {
    fn of(server: &'a RedisServer) -> Self {
        // Not less: what a script calls would be logged as well, within the script's own time.
        let _: String = server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "100"]);
        let _: String = server.cli(&["CONFIG", "SET", "slowlog-max-len", "1000000"]);
        Self(server)
    }

    /// All since the last time this was asked.
    fn took(&self) -> Took {
        let took = self.took_by(&["eval", "evalsha"]);
        self.reset();
        took
    }

    fn reset(&self) {
        let _: String = self.0.cli(&["SLOWLOG", "RESET"]);
        let _: String = self.0.cli(&["CONFIG", "RESETSTAT"]);
    }

    /// Those sent as one of these commands, since the last reset.
    fn took_by(&self, commands: &[&str]) -> Took {
        let stats: String = self.0.cli(&["INFO", "commandstats"]);
        let sum = |field: &str| commands.iter().filter_map(|name| stat(&stats, name, field)).sum();
        let mut slow: Vec<u64> = self.slow(commands);
        slow.sort_unstable();
        Took { calls: sum("calls="), micros: sum("usec="), slow }
    }

    /// The microseconds of each that took more than 100.
    fn slow(&self, commands: &[&str]) -> Vec<u64> {
        let calls: Vec<Vec<Value>> = self.0.cli(&["SLOWLOG", "GET", "-1"]);
        let script = |call: &Vec<Value>| -> Option<u64> {
            let words: Vec<Vec<u8>> = redis::from_redis_value(call[3].clone()).ok()?;
            let is_one = commands.iter().any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()));
            is_one.then(|| redis::from_redis_value(call[2].clone()).ok())?
        };
        calls.iter().filter_map(script).collect()
    }
}

/// One number of `INFO commandstats`.
fn stat(stats: &str, command: &str, field: &str) -> Option<u64> {
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")))?;
    line.split(',').find_map(|text| text.strip_prefix(field))?.parse().ok()
}

/// The longest is what others had to wait for, and on a busy machine what the server itself had to.
struct Took {
    calls: u64,
    micros: u64,
    /// Those of more than 100 microseconds, sorted.
    slow: Vec<u64>,
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, micros, slow } = self;
        let very_slow = slow.iter().filter(|&&micros| micros > 1000).count();
        write!(f, "{calls} of {} us each, ", micros / calls)?;
        match slow.last() {
            None => write!(f, "none of more than 100 us"),
            Some(longest) => write!(
                f,
                "{} of more than 100 us, {very_slow} of more than 1 ms, the longest {longest} us",
                slow.len(),
            ),
        }
    }
}
