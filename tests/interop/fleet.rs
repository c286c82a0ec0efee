//! A mixed fleet under load: two JVMs and two processes of ours on one limiter.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use tests::{redis_server::RedisServer, window::worst_window};

use crate::{
    length,
    redisson::{Load, Redisson},
    state::State,
    timeline::{Grant, Timeline},
};

on_each_version!(a_mixed_fleet_keeps_the_limit_and_uses_it);

const RATE: u64 = 200;
const PER_MS: u64 = 1_000;
/// Of each side.
const CLIENTS: u64 = 2;
/// Of each client.
const THREADS: u32 = 4;

async fn a_mixed_fleet_keeps_the_limit_and_uses_it(redisson: Redisson) {
    let seconds = length(3, 60);
    let server = RedisServer::start();
    let mut javas = [redisson.connect(&server), redisson.connect(&server)];
    assert!(javas[0].call::<bool>(&format!("trySetRate shared OVERALL {RATE} {PER_MS}")));
    let timeline = Timeline::start(&server);
    let run = Duration::from_secs(seconds) + Duration::from_millis(500);
    let workers = [worker(&server, run), worker(&server, run)];
    let load = format!("load shared {THREADS} {} try 1", run.as_millis());
    javas.iter_mut().for_each(|java| java.begin(&load));
    let loads = javas.each_mut().map(|java| java.answer::<Load>());
    let by_rust = workers.map(admitted);
    let by_java = timeline.finish();

    for load in &loads {
        assert_eq!((load.errors, &*load.first_error), (0, ""), "{redisson}");
    }
    let granted = loads.map(|load| load.granted);
    assert_eq!(by_java.len() as u64, granted[0] + granted[1], "what Java got is what ran");
    let figures = Figures::of(&by_rust.concat(), &by_java, seconds);
    let admitted = by_rust.map(|admitted| admitted.len());
    println!("{redisson}, {seconds} s: {granted:?} by Java, {admitted:?} by Rust; {figures:?}");
    figures.assert_good(seconds);
    State::of(&server, "shared").assert_whole();
}

fn worker(server: &RedisServer, run: Duration) -> Child {
    Command::new(env!("CARGO_BIN_EXE_worker"))
        .args([&*server.url(), "shared", &RATE.to_string(), &PER_MS.to_string(), "reset"])
        .args([THREADS.to_string(), run.as_millis().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the worker runs")
}

/// When a worker was admitted, by the clock of the server.
fn admitted(worker: Child) -> Vec<u64> {
    let output = worker.wait_with_output().expect("the output of a worker");
    let text = String::from_utf8(output.stdout).expect("text");
    let times = text.lines().filter_map(|line| line.strip_prefix("admitted "));
    times.map(|time| time.parse().expect("milliseconds")).collect()
}

#[derive(Debug)]
struct Figures {
    /// Permits taken in the time that counts.
    total: u64,
    by_rust: u64,
    by_java: u64,
    /// The most permits in a window by the server's clock.
    worst: u64,
    /// The longest a granted call of Java's was under way, in milliseconds.
    lag_ms: u64,
    /// By how much windows have to be shorter for all of them to keep the limit.
    shorter_ms: u64,
}

impl Figures {
    fn of(by_rust: &[u64], by_java: &[Grant], seconds: u64) -> Self {
        let java = by_java.iter().map(|grant| (grant.ran_ms, grant.permits));
        let ran: Vec<_> = by_rust.iter().map(|&at| (at, 1)).chain(java).collect();
        let worst = |per| worst_window(&ran, per).map_or(0, |worst| worst.permits);
        let lags = by_java.iter().map(|grant| grant.ran_ms.saturating_sub(grant.stamp_ms));
        let start = ran.iter().map(|&(at, _)| at).min().expect("somebody was admitted");
        let counts = start..start + seconds * 1000;
        Self {
            total: ran.iter().filter(|(at, _)| counts.contains(at)).count() as u64,
            by_rust: by_rust.len() as u64,
            by_java: by_java.len() as u64,
            worst: worst(PER_MS),
            lag_ms: lags.max().unwrap_or(0),
            shorter_ms: (0..PER_MS).find(|short| worst(PER_MS - short) <= RATE).unwrap_or(PER_MS),
        }
    }

    /// Redisson stamps a permit with the time at which the call was made and goes by that, so a
    /// permit is free again earlier than a window after the server ran the call, by what the call
    /// was under way. That is one permit at a time for each thread of Java's, and nothing else.
    fn assert_good(&self, seconds: u64) {
        assert!(self.worst <= RATE + CLIENTS * u64::from(THREADS), "{self:?}");
        assert!(self.shorter_ms <= self.lag_ms, "{self:?}");
        // Nobody is there yet in the first moments of the first window.
        let expected = RATE * seconds;
        assert!(self.total * 100 >= expected * 98, "{self:?}");
        assert!(self.total * 100 <= expected * 102 + RATE, "{self:?}");
        for share in [self.by_rust, self.by_java] {
            assert!(share * 10 >= self.total, "{self:?}");
        }
    }
}
