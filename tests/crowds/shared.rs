//! Several processes of one store: what runs in them, and their record.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use tests::{ledger::Admission, redis_server::RedisServer};

/// Whether the long form of a test is wanted.
pub(crate) fn full_length() -> bool {
    std::env::var_os("RATELIMIT_FULL_LENGTH").is_some()
}

/// What the tasks of each process do; see `tests/src/bin/swarm.rs`.
#[derive(Clone, Copy)]
pub(crate) struct Habits {
    pub(crate) tasks: u64,
    pub(crate) run: Duration,
    pub(crate) costs: u64,
    pub(crate) drops: u64,
    pub(crate) changes: u64,
}

/// A process of many tasks; killed when dropped.
pub(crate) struct Swarm {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

/// What the processes did.
#[derive(Default)]
pub(crate) struct Record {
    /// Of each process.
    pub(crate) admissions: Vec<Vec<Admission>>,
    /// From when until when the machine let each process wait.
    pub(crate) late: Vec<Vec<(u64, u64)>>,
    pub(crate) tried: u64,
}

impl Swarm {
    pub(crate) fn start(server: &RedisServer, file: &Path, seed: u64, habits: Habits) -> Self {
        let Habits { tasks, run, costs, drops, changes } = habits;
        let run = u64::try_from(run.as_millis()).unwrap();
        let numbers = [tasks, run, seed, costs, drops, changes].map(|number| number.to_string());
        let mut child = Command::new(env!("CARGO_BIN_EXE_swarm"))
            .arg(server.url())
            .arg(file)
            .arg("wanted")
            .args(numbers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(output.next().unwrap().unwrap(), "ready");
        let input = child.stdin.take();
        Self { child, input, output }
    }

    /// Starts the tasks, or has the limits file read again.
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn record(mut self, record: &mut Record) {
        let (mut admissions, mut late) = (Vec::new(), Vec::new());
        let mut is_over = false;
        for line in self.output.by_ref().map(Result::unwrap) {
            match line.split_once(' ') {
                Some(("tried", tried)) => record.tried += tried.parse::<u64>().unwrap(),
                Some(("late", times)) => {
                    let (from, until) = times.split_once(' ').unwrap();
                    late.push((from.parse().unwrap(), until.parse().unwrap()));
                }
                Some(_) => admissions.push(admission(&line)),
                None => is_over = line == "over",
            }
        }
        assert!(is_over, "a process failed");
        record.admissions.push(admissions);
        record.late.push(late);
    }
}

fn admission(line: &str) -> Admission {
    let mut words = line.split(' ');
    let mut number = || words.next().unwrap().parse().unwrap();
    let (at_ms, permits) = (number(), number());
    let mut admission = Admission { at_ms, permits, ..Admission::default() };
    for word in words {
        let numbers: Vec<u64> =
            word[1..].split(':').map(|number| number.parse().unwrap()).collect();
        match numbers[..] {
            [at, n] => admission.returned.push((at, n)),
            [from, until, n] => admission.added.push((from, until, n)),
            _ => panic!("{line}"),
        }
    }
    admission
}

impl Drop for Swarm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Several processes that start at the same time.
pub(crate) struct Swarms(Vec<Swarm>);

impl Swarms {
    pub(crate) fn start(server: &RedisServer, file: &Path, processes: u64, habits: Habits) -> Self {
        let mut all: Vec<Swarm> =
            (0..processes).map(|n| Swarm::start(server, file, n + 1, habits)).collect();
        all.iter_mut().for_each(|swarm| swarm.tell("go"));
        Self(all)
    }

    pub(crate) fn reload(&mut self) {
        self.0.iter_mut().for_each(|swarm| swarm.tell("reload"));
    }

    /// Waits for their end.
    pub(crate) fn record(self) -> Record {
        let mut record = Record::default();
        for swarm in self.0 {
            swarm.record(&mut record);
        }
        record
    }
}

impl Record {
    pub(crate) fn all(&self) -> Vec<Admission> {
        self.admissions.concat()
    }
}

/// A limits file with the limiter that the processes want.
pub(crate) fn limits_file(server: &RedisServer, numbers: &str) -> PathBuf {
    let file = server.data_dir().join("ratelimit.yaml");
    let yaml = format!(
        "limiters:\n  wanted: {{ {numbers}, on_drift: carry, on_store_error: reject }}\n  elsewhere: {{ rate: 1, per: 1s }}\n"
    );
    std::fs::write(&file, yaml).unwrap();
    file
}

/// The numbers of a limiter by each rule, as a limits file has them.
pub(crate) fn numbers(rule: &str, rate: u64, per_ms: u64, burst: u64) -> String {
    let rule = match rule {
        "sliding" => "algorithm: sliding_window".to_owned(),
        "fixed" => "algorithm: fixed_window".to_owned(),
        "token" => format!("algorithm: token_bucket, burst: {burst}"),
        "leaky" => "algorithm: leaky_bucket".to_owned(),
        other => format!("algorithm: token_bucket, warm_up: {}ms # {other}", per_ms * 2),
    };
    format!("rate: {rate}, per: {per_ms}ms, {rule}").replace(" # warming", "")
}

/// How many scripts the server ran.
pub(crate) fn script_calls(server: &RedisServer) -> u64 {
    ["evalsha", "eval", "fcall"].iter().map(|command| server.calls(command)).sum()
}
