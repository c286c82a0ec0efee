//! Child processes that cannot outlive the tests.
//!
//! `Drop` ends a process when its test ends or panics. A watchdog covers killed test processes and
//! servers in statics: a shell that reads the process ids from a pipe and, at the end of the pipe,
//! kills the remaining processes and removes the directory of the run. The kernel closes the pipe
//! when the test process ends in any way.

use std::{
    fs,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{self, Child, ChildStdin, Command, Stdio},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const WATCHDOG: &str = r#"
trap '' HUP INT TERM
pids=
while read -r what pid; do
    if [ "$what" = adopt ]; then
        pids="$pids $pid"
        continue
    fi
    kept=
    for other in $pids; do
        [ "$other" = "$pid" ] || kept="$kept $other"
    done
    pids=$kept
done
for pid in $pids; do
    kill -9 "$pid"
done
rm -rf "$1"
"#;

/// A running child; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let watchdog = watchdog();
        let child = command.spawn()?;
        watchdog.tell("adopt", child.id());
        Ok(Self(child))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal)
            .unwrap_or_else(|error| panic!("cannot signal process {pid:?}: {error}"));
    }

    /// Suspends the process; it executes no further instruction after this returns.
    pub(crate) fn suspend(&self) {
        self.signal(Signal::STOP);
        let pid = Pid::from_child(&self.0);
        let state = waitpid(Some(pid), WaitOptions::UNTRACED);
        let stopped = state.is_ok_and(|state| state.is_some_and(|(_, status)| status.stopped()));
        assert!(stopped, "process {pid:?} did not stop");
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) {
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        // Sent before the process is reaped: until then its id cannot belong to another one.
        watchdog().tell("forget", self.0.id());
        self.wait();
    }
}

/// Creates an empty directory, removed at the end of the run at the latest.
pub(crate) fn fresh_dir(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = watchdog().dir.join(format!("{name}-{count}"));
    fs::create_dir(&dir).unwrap_or_else(|error| panic!("cannot create {}: {error}", dir.display()));
    dir
}

struct Watchdog {
    dir: PathBuf,
    pipe: Mutex<ChildStdin>,
}

impl Watchdog {
    fn start() -> io::Result<Self> {
        let unique =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let dir = std::env::temp_dir().join(format!("ratelimit-tests-{}-{unique}", process::id()));
        fs::create_dir(&dir)?;
        // A separate process group, because Ctrl-C and `timeout` end whole groups. No inherited output,
        // because a reader of the tests' output would wait for this process too.
        let mut child = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(&dir)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { dir, pipe: Mutex::new(pipe) })
    }

    fn tell(&self, what: &str, pid: u32) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a watchdog `Drop` still works, so an error here does not matter to a test.
        let _ = writeln!(pipe, "{what} {pid}");
    }
}

fn watchdog() -> &'static Watchdog {
    static WATCHDOG: OnceLock<Watchdog> = OnceLock::new();
    WATCHDOG.get_or_init(|| {
        Watchdog::start().unwrap_or_else(|error| panic!("cannot start the watchdog: {error}"))
    })
}
