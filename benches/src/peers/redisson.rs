//! Redisson itself, in a JVM of its own that is told what to do by its standard input.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use super::Limit;
use crate::{load::Waits, sample::Sample};

/// From this many callers on, its asynchronous calls get further than as many threads.
const ASYNC_FROM: usize = 2048;

/// A JVM with a connected client; ends with its input.
pub struct Redisson {
    jvm: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// What runs it.
    pub machine: String,
}

impl Redisson {
    /// Starts the driver that lies in this folder.
    ///
    /// # Panics
    ///
    /// Panics when Java does not start or Redisson does not connect.
    pub fn start(folder: &Path, address: &str) -> Self {
        let mut jvm = Command::new("java")
            .args(["-cp", &format!("{0}/classes:{0}/lib/*", folder.display()), "bench.Driver"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`java` runs");
        let commands = jvm.stdin.take();
        let answers = BufReader::new(jvm.stdout.take().expect("its output is ours"));
        let mut redisson = Self { jvm, commands, answers, machine: String::new() };
        redisson.machine = redisson.call(&format!("connect {address}"));
        redisson
    }

    /// Makes the limiters that the next loads use.
    pub fn create(&mut self, limit: &Limit) {
        let Limit { name, keys, rate, per, per_client } = limit;
        let mode = if *per_client { "PER_CLIENT" } else { "OVERALL" };
        let per = per.as_millis();
        self.call(&format!("create redisson:{name} {keys} {mode} {rate} {per}"));
    }

    pub fn closed(&mut self, callers: usize, time: Duration) -> Sample {
        let kind = if callers >= ASYNC_FROM { "async" } else { "threads" };
        self.sample(&format!("closed {kind} {callers} {}", time.as_millis()))
    }

    pub fn open(&mut self, rate: u32, time: Duration) -> Sample {
        self.sample(&format!("open {rate} {}", time.as_millis()))
    }

    /// Has so many threads wait for permits of the first limiter of this name.
    ///
    /// # Panics
    ///
    /// Panics when the driver fails.
    pub fn wait(&mut self, limit: &Limit, callers: usize, time: Duration) -> Waits {
        let command = format!("wait redisson:{}:0 {callers} {}", limit.name, time.as_millis());
        let answer = self.call(&command);
        Waits::parse(&answer).unwrap_or_else(|| panic!("Redisson's driver answers `{answer}`"))
    }

    fn sample(&mut self, command: &str) -> Sample {
        let answer = self.call(command);
        Sample::parse(&answer).unwrap_or_else(|| panic!("Redisson's driver answers `{answer}`"))
    }

    fn call(&mut self, command: &str) -> String {
        let commands = self.commands.as_mut().expect("open until the end");
        writeln!(commands, "{command}").expect("the JVM reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the JVM writes UTF-8");
        assert!(!line.is_empty() && !line.starts_with("error "), "Redisson, `{command}`: {line}");
        line.trim_end().to_owned()
    }
}

impl Drop for Redisson {
    fn drop(&mut self) {
        self.commands = None;
        let _ = self.jvm.kill();
        let _ = self.jvm.wait();
    }
}
