//! Redisson itself, in a JVM of its own that reads commands from its standard input.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::Limit;
use crate::{load::Waits, sample::Sample};

/// The Java method that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// `tryAcquire`, by a thread for each caller.
    Threads,
    /// `tryAcquireAsync`, which reaches a higher rate.
    Async,
}

/// A JVM with a connected client; ends with its input.
pub struct Redisson {
    jvm: Child,
    pipes: Mutex<Pipes>,
    /// What runs it.
    pub machine: String,
}

struct Pipes {
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Redisson {
    /// Starts the driver that lies in this folder.
    ///
    /// # Panics
    ///
    /// Panics if Java does not start or Redisson does not connect.
    pub fn start(folder: &Path, address: &str) -> Self {
        let mut jvm = Command::new("java")
            .args(["-cp", &format!("{0}/classes:{0}/lib/*", folder.display()), "bench.Driver"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`java` runs");
        let commands = jvm.stdin.take().expect("its input is ours");
        let answers = BufReader::new(jvm.stdout.take().expect("its output is ours"));
        let pipes = Mutex::new(Pipes { commands, answers });
        let mut redisson = Self { jvm, pipes, machine: String::new() };
        redisson.machine = redisson.call(&format!("connect {address}"));
        redisson
    }

    /// Makes the limiters that the next loads use.
    pub fn create(&self, limit: &Limit) {
        let Limit { name, keys, rate, per, per_client } = limit;
        let mode = if *per_client { "PER_CLIENT" } else { "OVERALL" };
        let per = per.as_millis();
        self.call(&format!("create redisson:{name} {keys} {mode} {rate} {per}"));
    }

    pub fn closed(&self, calls: Calls, callers: usize, time: Duration) -> Sample {
        let kind = if calls == Calls::Async { "async" } else { "threads" };
        self.sample(&format!("closed {kind} {callers} {}", time.as_millis()))
    }

    pub fn open(&self, rate: u32, time: Duration) -> Sample {
        self.sample(&format!("open {rate} {}", time.as_millis()))
    }

    /// Runs this many threads that wait for permits of the first limiter with this name.
    ///
    /// # Panics
    ///
    /// Panics if the driver fails.
    pub fn wait(&self, limit: &Limit, callers: usize, time: Duration) -> Waits {
        let command = format!("wait redisson:{}:0 {callers} {}", limit.name, time.as_millis());
        let answer = self.call(&command);
        Waits::parse(&answer).unwrap_or_else(|| panic!("Redisson's driver answers `{answer}`"))
    }

    fn sample(&self, command: &str) -> Sample {
        let answer = self.call(command);
        Sample::parse(&answer).unwrap_or_else(|| panic!("Redisson's driver answers `{answer}`"))
    }

    fn call(&self, command: &str) -> String {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(pipes.commands, "{command}").expect("the JVM reads");
        let mut line = String::new();
        pipes.answers.read_line(&mut line).expect("the JVM writes UTF-8");
        assert!(!line.is_empty() && !line.starts_with("error "), "Redisson, `{command}`: {line}");
        line.trim_end().to_owned()
    }
}

impl Drop for Redisson {
    fn drop(&mut self) {
        let _ = self.jvm.kill();
        let _ = self.jvm.wait();
    }
}
