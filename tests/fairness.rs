//! Who gets how much of a limiter that several processes want all of.
//!
//! ```sh
//! RATELIMIT_FULL_LENGTH=1 cargo test --release -p tests --test fairness -- --nocapture --test-threads=1
//! ```
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use ratelimit_runtime::{Limits, Quota};
use tests::{redis_server::RedisServer, window};

/// How often there is a permit to be had, in milliseconds, and for how long.
fn scale() -> (u64, Duration) {
    match std::env::var_os("RATELIMIT_FULL_LENGTH") {
        Some(_) => (1000, Duration::from_secs(60)),
        None => (200, Duration::from_secs(8)),
    }
}

/// A process with one caller.
struct Caller {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Caller {
    fn start(server: &RedisServer, per_ms: u64, run: Duration, pace: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_caller"))
            .args([&server.url(), "wanted", "1", &per_ms.to_string()])
            .args([&run.as_millis().to_string(), pace])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(output.next().unwrap().unwrap(), "ready");
        Self { child, output }
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// When it was admitted, once its time is over.
    fn admitted(&mut self) -> Vec<(u64, u64)> {
        let lines = self.output.by_ref().map(Result::unwrap);
        let times = lines.filter_map(|line| Some(line.strip_prefix("admitted ")?.parse().unwrap()));
        times.map(|at| (at, 1)).collect()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many permits each of the processes got.
fn fight(paces: &[&str]) -> Vec<usize> {
    let (per_ms, run) = scale();
    let server = RedisServer::start();
    let start = |pace: &&str| Caller::start(&server, per_ms, run, pace);
    let mut callers: Vec<Caller> = paces.iter().map(start).collect();
    callers.iter_mut().for_each(Caller::go);
    let admitted: Vec<_> = callers.iter_mut().map(Caller::admitted).collect();
    window::assert_kept(&admitted.concat(), per_ms, 1);
    let shares: Vec<usize> = admitted.iter().map(Vec::len).collect();
    println!(
        "1 every {per_ms} ms for {run:?}, callers {paces:?}: {shares:?} by {} script calls",
        server.calls("evalsha")
    );
    let (all, most) = (shares.iter().sum::<usize>(), run.as_millis() / u128::from(per_ms));
    assert!(all as u128 * 10 >= most * 8, "{all} of {most}");
    shares
}

#[test]
fn a_caller_that_waits_gets_its_share_beside_one_that_polls() {
    for pace in ["7", "fast"] {
        let shares = fight(&["blocked", pace]);
        let all: usize = shares.iter().sum();
        assert!(shares[0] * 4 >= all, "{shares:?} with a poller of {pace}");
    }
}

#[test]
fn callers_that_wait_in_different_processes_share_alike() {
    let shares = fight(&["blocked", "blocked"]);
    let all: usize = shares.iter().sum();
    assert!(shares.iter().all(|share| share * 6 >= all), "{shares:?}");
}

#[tokio::test]
async fn who_waits_as_long_as_it_was_told_is_served() {
    let server = RedisServer::start();
    let limits = Limits::builder().redis(server.url()).no_limits_file();
    let limits = limits.deadline(Duration::from_secs(5)).build().await.unwrap();
    let limiter = limits.limiter("told", Quota::new(1, Duration::from_millis(400)).unwrap());
    for tries in [1, 2, 30] {
        limiter.acquire(1).await.unwrap();
        let mut told = Duration::ZERO;
        for _ in 0..tries {
            told = limiter.try_acquire(1).await.unwrap_err().retry_after().unwrap();
        }
        // Not more than what is due to those who waited, and the rounding.
        assert!(told <= Duration::from_millis(406), "{told:?} after {tries}");
        tokio::time::sleep(told).await;
        assert!(limiter.try_acquire(1).await.is_ok(), "after {tries} and {told:?}");
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
}
