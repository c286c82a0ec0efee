//! Starting the process and waiting until it answers.

use std::{
    fmt,
    fs::{self, File},
    io,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use redis::{ErrorKind, ServerErrorKind};

use super::{RedisServer, field_of, own_file};
use crate::{process::Process, server_binary};

/// Generous, since a machine that compiles at the same time can be very slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// `PING` is answered by `PONG`.
    Loaded,
    /// `PING` is answered, if only by `LOADING`.
    Answering,
}

/// Why a server did not start.
#[derive(Debug)]
pub(super) enum Failure {
    PortTaken(String),
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::PortTaken(text) | Self::Other(text)) = self;
        f.write_str(text)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Other(error.to_string())
    }
}

pub(super) fn launch(server: &RedisServer, until: Until) -> Result<Process, Failure> {
    fs::create_dir_all(server.data_dir())?;
    // The log file only starts once the configuration has been read; what is said before goes here.
    let output = File::options().create(true).append(true).open(own_file(&server.dir, "output"))?;
    let mut command = Command::new(server_binary());
    command.arg(server.config_file()).current_dir(server.data_dir());
    if server.sentinel {
        command.arg("--sentinel");
    }
    command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
    let mut process = Process::spawn(&mut command)?;
    wait(server, &mut process, until).map(|()| process)
}

fn wait(server: &RedisServer, process: &mut Process, until: Until) -> Result<(), Failure> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if answers(server, process.id(), until) {
            return Ok(());
        }
        if !process.is_running() {
            let log = log(&server.dir);
            return Err(if log.contains("Address already in use") {
                Failure::PortTaken(log)
            } else {
                Failure::Other(format!("it ended with this log:\n{log}"))
            });
        }
        if Instant::now() > give_up {
            return Err(Failure::Other(format!(
                "no answer within {PATIENCE:?}; its log:\n{}",
                log(&server.dir)
            )));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Also checks the process id: if another process has taken the port, the other server replies.
fn answers(server: &RedisServer, pid: u32, until: Until) -> bool {
    let Ok(info) = server.try_cli::<String>(&["info", "server"]) else {
        return false;
    };
    if field_of(&info, "process_id") != pid.to_string() {
        return false;
    }
    match server.try_cli::<String>(&["ping"]) {
        Ok(_) => true,
        Err(error) => {
            let loading = ErrorKind::Server(ServerErrorKind::BusyLoading);
            until == Until::Answering && error.kind() == loading
        }
    }
}

pub(super) fn log(dir: &Path) -> String {
    ["output", "log"].map(|file| fs::read_to_string(dir.join(file)).unwrap_or_default()).concat()
}
