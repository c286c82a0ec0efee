//! The examples as processes.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use tests::redis_server::RedisServer;

/// Runs a program for as long as there is an input. That ends with the process of the tests, even
/// when it is killed.
const WHILE_WANTED: &str = r#""$@" & read -r _; kill -9 "$!"; wait"#;

/// What is in the limits file of an example.
pub(crate) const DEADLINE: &str = "deadline: 5s\n";

/// The command that runs an example, after the words of another one if there are any.
fn command(before: &[&str], example: &str, redis: Option<&RedisServer>) -> Command {
    let program = tests::example(example);
    let mut command = match before {
        [] => Command::new(program),
        [first, others @ ..] => {
            let mut command = Command::new(first);
            command.args(others).arg(program);
            command
        }
    };
    for setting in ["RATELIMIT_LIMITS", "RATELIMIT_STORE", "REDIS_URL"] {
        command.env_remove(setting);
    }
    if let Some(redis) = redis {
        command.env("REDIS_URL", redis.url());
    }
    command
}

/// Runs an example to its end, and gives the lines it printed.
pub(crate) fn run(example: &str, redis: Option<&RedisServer>, arguments: &[&str]) -> Vec<String> {
    let output = command(&[], example, redis).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{example}` ended with {}: {errors}", output.status);
    assert_eq!(errors, "", "`{example}` complains");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Runs an example on each of the stores.
pub(crate) fn run_on_each(example: &str, check: impl Fn(&[String])) {
    check(&run(example, None, &[]));
    check(&run(example, Some(&RedisServer::start()), &[]));
}

/// An example that serves HTTP until it is dropped.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
    log: PathBuf,
    limits: PathBuf,
}

impl Server {
    /// Starts one on a port of its own.
    pub(crate) fn start(example: &str, redis: Option<&RedisServer>) -> Self {
        Self::with_limits(example, redis, "")
    }

    /// Starts one with a limits file of `examples`.
    pub(crate) fn with_file(example: &str, redis: Option<&RedisServer>, limits: &str) -> Self {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples");
        Self::with_limits(example, redis, &fs::read_to_string(examples.join(limits)).unwrap())
    }

    /// Starts one with these limits, or another program by its path. It has patience with the store, since a busy machine is no outage.
    pub(crate) fn with_limits(example: &str, redis: Option<&RedisServer>, yaml: &str) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = Path::new(example).file_name().unwrap().to_str().unwrap();
        let file = |ending| {
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{number}.{ending}"))
        };
        let (log, limits) = (file("log"), file("yaml"));
        fs::write(&limits, format!("{yaml}{DEADLINE}")).unwrap();
        let mut process = command(&["sh", "-c", WHILE_WANTED, "sh"], example, redis)
            .env("LISTEN", "127.0.0.1:0")
            .env("RATELIMIT_LIMITS", &limits)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let server = Self {
            process,
            url: line.trim_end().trim_start_matches("listening on ").to_owned(),
            log,
            limits,
        };
        assert!(server.url.starts_with("http://"), "`{example}`: {line}{}", server.log());
        server
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.program(), signal).unwrap();
    }

    /// Whether the program is still there.
    pub(crate) fn runs(&self) -> bool {
        !self.children().is_empty()
    }

    /// The limits file that it was started with.
    pub(crate) fn limits(&self) -> &Path {
        &self.limits
    }

    /// The process of the program, which is the only child of its shell.
    fn program(&self) -> Pid {
        Pid::from_raw(self.children()[0]).unwrap()
    }

    fn children(&self) -> Vec<i32> {
        let shell = self.process.id();
        let list = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        list.split_whitespace()
            .map(|pid| pid.parse().unwrap())
            // One that ended stays until its shell looks.
            .filter(|pid| {
                !fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ")
            })
            .collect()
    }

    /// What it had to say of its store and of itself.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        if thread::panicking() {
            eprintln!("the example said:\n{}", self.log());
        }
    }
}
