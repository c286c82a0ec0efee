//! Several processes with different configurations on one limiter.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "reconcile/clock.rs"]
mod clock;
#[path = "reconcile/members.rs"]
mod members;
#[path = "reconcile/outside.rs"]
mod outside;

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

use tests::{redis_server::RedisServer, window::worst_window};

/// `RATELIMIT_FULL_LENGTH=1` runs the rolling changes with more and longer-lived processes.
fn full_length() -> bool {
    std::env::var_os("RATELIMIT_FULL_LENGTH").is_some()
}

fn per_ms() -> u64 {
    if full_length() { 10_000 } else { 2_000 }
}

/// A worker process and what it printed.
struct Worker {
    child: Child,
    output: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(server: &RedisServer, rate: u64, on_drift: &str, run: Duration) -> Self {
        Self::with_window(server, rate, per_ms(), on_drift, run)
    }

    fn with_window(
        server: &RedisServer,
        rate: u64,
        per_ms: u64,
        on_drift: &str,
        run: Duration,
    ) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args([&server.url(), "shared", &rate.to_string(), &per_ms.to_string(), on_drift, "4"])
            .arg(run.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        let (lines, stdout) = (Arc::clone(&output), child.stdout.take().unwrap());
        let reader = thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                lines.lock().unwrap().push(line.unwrap());
            }
        });
        Self { child, output, reader: Some(reader) }
    }

    /// Ends its input, at which it reports and exits.
    fn stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for its end and returns its lines of one kind, without the kind.
    fn lines(&mut self, kind: &str) -> Vec<String> {
        if let Some(reader) = self.reader.take() {
            // Its output ends when it does; waiting for it would end its input, and so its run.
            reader.join().unwrap();
            self.child.wait().unwrap();
        }
        let output = self.output.lock().unwrap();
        output
            .iter()
            .filter_map(|line| line.strip_prefix(kind))
            .map(|rest| rest.trim().to_owned())
            .collect()
    }

    fn admitted(&mut self) -> Vec<u64> {
        self.lines("admitted").iter().map(|at| at.parse().unwrap()).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sleep(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

fn stored(server: &RedisServer, field: &str) -> u64 {
    server.cli(&["HGET", "shared", field])
}

fn count(workers: &mut [Worker], event: &str) -> usize {
    workers.iter_mut().flat_map(|worker| worker.lines("event")).filter(|line| line == event).count()
}

fn history(workers: &mut [Worker]) -> Vec<(u64, u64)> {
    workers.iter_mut().flat_map(Worker::admitted).map(|at| (at, 1)).collect()
}

/// Starts old processes, then new ones beside them, and returns all of them after their end, with
/// the server's time at which the first new one started.
fn rolling_change(server: &RedisServer, on_drift: &str) -> (Vec<Worker>, Vec<Worker>, u64) {
    let processes = if full_length() { 4 } else { 3 };
    let mut run = Duration::from_millis(if full_length() { 60_000 } else { 14_000 });
    let mut old: Vec<_> =
        (0..processes).map(|_| Worker::start(server, 10, on_drift, run)).collect();
    sleep(3_000);
    let (seconds, micros): (u64, u64) = server.cli(&["TIME"]);
    let changed = seconds * 1000 + micros / 1000;
    let mut new = Vec::new();
    run -= Duration::from_secs(3);
    for _ in 0..processes {
        new.push(Worker::start(server, 20, on_drift, run));
        sleep(700);
        run -= Duration::from_millis(700);
    }
    for worker in old.iter_mut().chain(&mut new) {
        worker.lines("");
    }
    (old, new, changed)
}

#[test]
fn a_rolling_change_resets_once_and_never_flaps() {
    let server = RedisServer::start();
    let (mut old, mut new, changed) = rolling_change(&server, "reset");
    assert_eq!(count(&mut new, "Reset"), 1, "one reset for the key");
    assert_eq!(count(&mut old, "Reset") + count(&mut old, "Carried"), 0, "and none in turn");
    assert_eq!(
        count(&mut old, "Followed"),
        old.len(),
        "every old process followed, and said so once"
    );
    let mut all = history(&mut old);
    all.extend(history(&mut new));
    let reset: u64 = stored(&server, "reset");
    let since: Vec<_> = all.iter().copied().filter(|(at, _)| *at >= reset).collect();
    assert!(reset >= changed);
    let worst = worst_window(&since, per_ms()).unwrap();
    assert_eq!(worst.permits, 20, "the new limit, exactly, from the reset on");
}

#[test]
fn a_rolling_change_that_carries_never_admits_more_than_the_new_rate() {
    let server = RedisServer::start();
    let (mut old, mut new, _) = rolling_change(&server, "carry");
    assert_eq!(count(&mut new, "Carried"), 1);
    let mut all = history(&mut old);
    all.extend(history(&mut new));
    assert_eq!(worst_window(&all, per_ms()).unwrap().permits, 20);
}

#[test]
fn a_restart_with_equal_numbers_never_refills() {
    let server = RedisServer::start();
    let run = Duration::from_secs(4);
    let mut first = Worker::with_window(&server, 10, 60_000, "reset", run);
    sleep(1_000);
    let mut second = Worker::with_window(&server, 10, 60_000, "reset", run);
    assert_eq!(first.admitted().len() + second.admitted().len(), 10);
    assert!(second.lines("event").is_empty(), "nothing to report");
}

#[test]
fn two_versions_that_start_again_and_again_share_one_window() {
    let server = RedisServer::start();
    let mut workers = Vec::new();
    let start = std::time::Instant::now();
    for n in 0..12 {
        let rate = if n % 2 == 0 { 10 } else { 16 };
        let run = Duration::from_millis(900);
        workers.push(Worker::with_window(&server, rate, 2_000, "reset", run));
        sleep(700);
    }
    let mut history = history(&mut workers);
    history.sort_unstable();
    let resets = count(&mut workers, "Reset");
    assert_eq!(resets, 1, "16 was new to the key once, in {:?}", start.elapsed());
    let reset: u64 = stored(&server, "reset");
    history.retain(|(at, _)| *at >= reset);
    assert_eq!(worst_window(&history, 2_000).unwrap().permits, 16);
}

#[test]
fn numbers_whose_processes_are_gone_are_given_up_within_a_minute() {
    let server = RedisServer::start();
    let run = Duration::from_secs(90);
    let mut stays = Worker::start(&server, 20, "reset", run);
    sleep(1_000);
    // An old version, started last, wins; then it goes away for good.
    let mut late = Worker::start(&server, 10, "reset", run);
    sleep(2_500);
    assert_eq!(stored(&server, "rate"), 10);
    late.stop();
    late.lines("");
    let gone = std::time::Instant::now();
    while stored(&server, "rate") == 10 {
        assert!(
            gone.elapsed() < Duration::from_secs(60),
            "still the numbers of a process that is gone"
        );
        sleep(500);
    }
    stays.stop();
    assert_eq!(stays.lines("event"), ["Followed", "Carried"]);
}

#[test]
fn a_change_from_outside_stays_until_the_next_start() {
    let server = RedisServer::start();
    let mut running = Worker::start(&server, 20, "reset", Duration::from_secs(30));
    sleep(1_000);
    let _: i64 = server.cli(&["HSET", "shared", "rate", "5"]);
    sleep(3_000);
    assert_eq!(stored(&server, "rate"), 5, "a running process follows");
    let mut restarted = Worker::start(&server, 20, "carry", Duration::from_secs(2));
    sleep(1_000);
    assert_eq!(stored(&server, "rate"), 20, "a starting one states its own");
    running.stop();
    assert_eq!(restarted.lines("event"), ["Carried"]);
    assert_eq!(running.lines("event"), ["Followed"]);
}
