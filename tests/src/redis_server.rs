//! A private Redis server.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{
    Client, Connection, ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo,
    RedisResult,
};
use rustix::process::Signal;

use crate::{ports::Port, process::Process};

mod builder;
mod launch;

pub use builder::Builder;

/// A standalone server on a port and in a directory of its own; killed, and its directory removed,
/// when dropped.
///
/// All methods take `&self`, so that a server can be shared with tasks that disturb it.
#[derive(Debug)]
pub struct RedisServer {
    port: Port,
    dir: PathBuf,
    password: Option<String>,
    sentinel: bool,
    process: Mutex<Option<Process>>,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk; it answers `PING` when this returns.
    ///
    /// # Panics
    ///
    /// Panics, with the server's log, if it does not start.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server with other settings than [`start`](Self::start) gives.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `redis://127.0.0.1:<port>/0`, with the password when there is one.
    pub fn url(&self) -> String {
        match &self.password {
            Some(password) => self.url_for("", password),
            None => format!("redis://{}/0", self.address()),
        }
    }

    /// The address for another user; neither part may need percent-encoding.
    pub fn url_for(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@{}/0", self.address())
    }

    /// `127.0.0.1:<port>`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// The port, which stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The process id.
    ///
    /// # Panics
    ///
    /// Panics if the server is not running.
    pub fn pid(&self) -> u32 {
        self.with_process(|process| process.id())
    }

    /// Whether the process exists, be it suspended or not.
    pub fn is_running(&self) -> bool {
        self.lock().as_mut().is_some_and(Process::is_running)
    }

    /// The directory the server keeps its data in and runs in; once it is removed, `BGSAVE` fails.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        launch::log(&self.dir)
    }

    /// Kills the server (SIGKILL). What it had in memory is lost, what it wrote to its files is
    /// not.
    pub fn kill_hard(&self) {
        *self.lock() = None;
    }

    /// Ends the server as an operator would (SIGTERM): it writes what it is configured to write.
    ///
    /// # Panics
    ///
    /// Panics if the server is not running.
    pub fn shut_down(&self) {
        self.with_process(|process| {
            process.signal(Signal::TERM);
            process.wait();
        });
        self.kill_hard();
    }

    /// Suspends the server (SIGSTOP): connections are still accepted, by the kernel, and nothing is
    /// answered.
    ///
    /// # Panics
    ///
    /// Panics if the server is not running.
    pub fn stop(&self) {
        self.with_process(|process| process.suspend());
    }

    /// Lets a suspended server go on (SIGCONT).
    ///
    /// # Panics
    ///
    /// Panics if the server is not running.
    pub fn cont(&self) {
        self.with_process(|process| process.signal(Signal::CONT));
    }

    /// Kills the server, if it runs, and starts it with empty data.
    ///
    /// # Panics
    ///
    /// Panics, with the server's log, if it does not start.
    pub fn restart(&self) {
        self.kill_hard();
        let _ = fs::remove_dir_all(self.data_dir());
        self.relaunch(launch::Until::Loaded);
    }

    /// Kills the server, if it runs, and starts it with what its files hold: see
    /// [`Builder::appendonly`], or `SAVE`.
    ///
    /// # Panics
    ///
    /// Panics, with the server's log, if it does not start.
    pub fn restart_with_data(&self) {
        self.kill_hard();
        self.relaunch(launch::Until::Loaded);
    }

    /// As [`restart_with_data`](Self::restart_with_data), but returns while the server still
    /// answers `LOADING`. It does so for the number of keys times `key-load-delay` (in µs), once
    /// after every 2 MB of a file that `SAVE` wrote; set `rdbcompression` to `no`, and see
    /// `DEBUG POPULATE` for a quick way to come by as much.
    ///
    /// # Panics
    ///
    /// Panics, with the server's log, if it does not start.
    pub fn restart_loading(&self) {
        self.kill_hard();
        self.relaunch(launch::Until::Answering);
    }

    /// Runs one command on a connection of its own, as `redis-cli` would:
    /// `server.cli::<()>(&["flushall"])`.
    ///
    /// # Panics
    ///
    /// Panics if the server answers with an error, or does not reply within five seconds.
    #[track_caller]
    pub fn cli<T: FromRedisValue>(&self, args: &[&str]) -> T {
        self.try_cli(args).unwrap_or_else(|error| panic!("`{}`: {error}", args.join(" ")))
    }

    /// The names of all keys of limiters, sorted: without the heartbeats of the processes that use them, which
    /// appear at any time.
    ///
    /// # Panics
    ///
    /// Panics if the server does not reply.
    #[must_use]
    #[track_caller]
    pub fn limiter_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.cli(&["KEYS", "*"]);
        keys.retain(|key| !key.contains("ratelimit:~members"));
        keys.sort();
        keys
    }

    /// As [`cli`](Self::cli), for commands that are meant to fail.
    ///
    /// # Errors
    ///
    /// What the server answered, or why it did not.
    pub fn try_cli<T: FromRedisValue>(&self, args: &[&str]) -> RedisResult<T> {
        let mut connection = self.connect()?;
        let mut command = redis::Cmd::new();
        for arg in args {
            command.arg(arg);
        }
        command.query(&mut connection)
    }

    /// A blocking connection.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn connect(&self) -> RedisResult<Connection> {
        let patience = Duration::from_secs(5);
        let connection = self.client()?.get_connection_with_timeout(patience)?;
        connection.set_read_timeout(Some(patience))?;
        Ok(connection)
    }

    /// One field of `INFO`, such as `master_link_status`; empty when there is none.
    pub fn info(&self, field: &str) -> String {
        let info: String = self.try_cli(&["info"]).unwrap_or_default();
        field_of(&info, field)
    }

    /// How often the server ran this command, in lower case, since it started.
    ///
    /// # Panics
    ///
    /// Panics if the server does not reply.
    pub fn calls(&self, command: &str) -> u64 {
        let stats: String = self.cli(&["info", "commandstats"]);
        let calls = field_of(&stats, &format!("cmdstat_{command}"));
        let calls = calls.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
        calls.map_or(0, |calls| calls.parse().expect("a number of calls"))
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    fn client(&self) -> RedisResult<Client> {
        // No introduction: what the support does should not be in the way of what a test counts.
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        let address = ConnectionAddr::Tcp("127.0.0.1".to_owned(), self.port());
        Client::open(address.into_connection_info()?.set_redis_settings(settings))
    }

    fn relaunch(&self, until: launch::Until) {
        let process = launch::launch(self, until)
            .unwrap_or_else(|problem| panic!("cannot restart the server: {problem}"));
        *self.lock() = Some(process);
    }

    fn with_process<T>(&self, run: impl FnOnce(&mut Process) -> T) -> T {
        run(self.lock().as_mut().expect("the server is running"))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn config_file(&self) -> PathBuf {
        self.dir.join("redis.conf")
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill_hard();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The value of `field` in a text of `field:value` lines, as `INFO` and `CLUSTER INFO` give it.
pub(crate) fn field_of(text: &str, field: &str) -> String {
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .unwrap_or_default()
        .to_owned()
}

/// Where the server's files outside its data directory go: configuration, log, cluster state.
pub(crate) fn own_file(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}
