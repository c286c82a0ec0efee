use std::{fmt::Write, fs, path::Path, sync::Mutex};

use super::{
    RedisServer, launch,
    launch::{Failure, Until},
    own_file,
};
use crate::{ports::Port, process::fresh_dir, server_version};

/// Starts may lose a race for a port against a process outside the tests.
const ATTEMPTS: usize = 5;

/// Settings of a [`RedisServer`] to be started.
#[derive(Debug, Default)]
#[must_use]
pub struct Builder {
    config: String,
    password: Option<String>,
    port: Option<Port>,
    sentinel: bool,
}

impl Builder {
    /// Adds a line of `redis.conf`: `.config("maxmemory-policy", "allkeys-lru")`. The value is
    /// written as it is, so one with spaces can be several arguments, or one in quotes:
    /// `.config("rename-command", "EVAL \"\"")`.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        writeln!(self.config, "{name} {value}").expect("a string takes what is written");
        self
    }

    /// Keeps data over [`RedisServer::restart_with_data`], by an append-only file.
    pub fn appendonly(self) -> Self {
        self.config("appendonly", "yes")
    }

    /// Demands a password of the default user.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.config("requirepass", password)
    }

    /// Adds an ACL user by its rules: `.user("app", "on >secret ~shop:* +@all -@dangerous")`.
    pub fn user(self, name: &str, rules: &str) -> Self {
        self.config("user", &format!("{name} {rules}"))
    }

    /// Uses this port, for servers that others must know before they are started.
    pub fn port(mut self, port: Port) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts it as a sentinel.
    pub(crate) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Starts the server; it answers `PING` when this returns.
    ///
    /// # Panics
    ///
    /// Panics, with the server's log, if it does not start.
    pub fn start(self) -> RedisServer {
        self.try_start().unwrap_or_else(|problem| panic!("cannot start a server: {problem}"))
    }

    /// Starts the server.
    ///
    /// # Errors
    ///
    /// Why it did not start, with its log.
    pub fn try_start(mut self) -> Result<RedisServer, String> {
        let mut given = self.port.take();
        for _ in 1..ATTEMPTS {
            match self.attempt(given.take().unwrap_or_else(Port::reserve)) {
                Err(Failure::PortTaken(_)) => {}
                other => return other.map_err(|failure| failure.to_string()),
            }
        }
        self.attempt(Port::reserve()).map_err(|failure| failure.to_string())
    }

    fn attempt(&self, port: Port) -> Result<RedisServer, Failure> {
        let server = RedisServer {
            port,
            dir: fresh_dir("redis"),
            password: self.password.clone(),
            sentinel: self.sentinel,
            process: Mutex::new(None),
        };
        let text = self.config_text(server.port(), &server.dir);
        fs::write(server.config_file(), text).map_err(|error| Failure::Other(error.to_string()))?;
        let process = launch::launch(&server, Until::Loaded)?;
        *server.lock() = Some(process);
        Ok(server)
    }

    /// Ours first: of two lines with one name the later one holds.
    fn config_text(&self, port: u16, dir: &Path) -> String {
        let mut text =
            format!("port {port}\nbind 127.0.0.1\nlogfile \"{}\"\n", own_file(dir, "log"));
        if !self.sentinel {
            text += "save \"\"\n";
            // A replica attaches at once; by default it waits five seconds, and a failover before
            // that loses all data.
            text += "repl-diskless-sync-delay 0\n";
            if server_version() >= (7, 0, 0) {
                text += "enable-debug-command yes\n";
            }
        }
        text + &self.config
    }
}
