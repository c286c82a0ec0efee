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

use tests::{redis_server::RedisServer, window};

/// Permits per second and how long they are fought for.
fn scale() -> (u64, Duration) {
    match std::env::var_os("RATELIMIT_FULL_LENGTH") {
        Some(_) => (1, Duration::from_secs(60)),
        None => (10, Duration::from_secs(6)),
    }
}

/// A process with one caller.
struct Caller {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Caller {
    fn start(server: &RedisServer, rate: u64, run: Duration, pace: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_caller"))
            .args([&server.url(), "wanted", &rate.to_string(), "1000"])
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

fn script_calls(server: &RedisServer) -> u64 {
    let stats: String = server.cli(&["INFO", "commandstats"]);
    let evalsha = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    evalsha.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

/// How many permits each of the processes got.
fn fight(paces: &[&str]) -> Vec<usize> {
    let (rate, run) = scale();
    let server = RedisServer::start();
    let start = |pace: &&str| Caller::start(&server, rate, run, pace);
    let mut callers: Vec<Caller> = paces.iter().map(start).collect();
    callers.iter_mut().for_each(Caller::go);
    let admitted: Vec<_> = callers.iter_mut().map(Caller::admitted).collect();
    window::assert_kept(&admitted.concat(), 1000, rate);
    let shares: Vec<usize> = admitted.iter().map(Vec::len).collect();
    println!(
        "{rate} a second for {run:?}, callers {paces:?}: {shares:?} by {} script calls",
        script_calls(&server)
    );
    let all = shares.iter().sum::<usize>() as u64;
    let most = rate * (run.as_secs() + 1);
    assert!(all * 10 >= most * 8, "{all} of {most}");
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
    assert!(shares.iter().all(|share| share * 4 >= all), "{shares:?}");
}
