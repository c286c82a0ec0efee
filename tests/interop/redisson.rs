//! Redisson in a JVM of its own, by the commands of `java/.../Driver.java`.

use std::{
    collections::HashMap,
    env, fmt,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    str::FromStr,
    sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError},
    thread,
};

use tests::redis_server::RedisServer;

/// The versions there is a driver for, one a line.
pub(crate) const VERSIONS: &str = include_str!("java/versions");

/// One version of Redisson, compiled and ready to be started.
#[derive(Clone, Debug)]
pub(crate) struct Redisson {
    version: &'static str,
    pub(crate) folder: PathBuf,
}

impl Redisson {
    /// The version, unless this machine has none; that is noted then.
    pub(crate) fn find(version: &'static str) -> Option<Self> {
        static NOTED: Once = Once::new();
        if let Some(folder) = env::var_os("RATELIMIT_INTEROP") {
            let folder = PathBuf::from(folder).join(version);
            assert!(folder.is_dir(), "no {}", folder.display());
            return Some(Self { version, folder });
        }
        let absent = env::var("RATELIMIT_INTEROP_ABSENT");
        // Said once; in CI each test fails by it.
        NOTED.call_once_force(|_| match &absent {
            // CI takes machines without Java as they are, and `cargo xtask` says so aloud.
            Ok(reason) => tests::note(&format!("like all tests against Redisson: {reason}")),
            Err(_) => tests::could_not_run("no compiled driver; `cargo xtask interop` makes it"),
        });
        None
    }

    /// Whether this is that version or a later one.
    pub(crate) fn since(&self, major: u32, minor: u32) -> bool {
        let mut numbers = self.version.split('.').map(|number| number.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap()) >= (major, minor)
    }

    /// A client of its own, connected to this server.
    pub(crate) fn connect(&self, server: &RedisServer) -> Client {
        self.connect_with(&server.address())
    }

    /// A client of its own; what follows the address is how long it waits for an answer, and then
    /// before it asks again, in milliseconds.
    pub(crate) fn connect_with(&self, address_and_patience: &str) -> Client {
        let jvm = idle().get_mut(self.version).and_then(Vec::pop).unwrap_or_else(|| self.start());
        let mut client =
            Client { version: self.version, jvm: Some(jvm), asked: false, id: String::new() };
        client.id = client.call(&format!("connect {address_and_patience}"));
        client
    }

    fn start(&self) -> Jvm {
        let classpath = format!("{0}/classes:{0}/lib/*", self.folder.display());
        let mut child = Command::new("java")
            // What starts soonest, and leaves the machine to the others.
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m"])
            .args(["-cp", &classpath, "interop.Driver"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`java` runs");
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Jvm { child, commands, answers }
    }
}

impl fmt::Display for Redisson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redisson {}", self.version)
    }
}

/// A Redisson client. Its JVM serves the next one when it is dropped.
pub(crate) struct Client {
    version: &'static str,
    jvm: Option<Jvm>,
    /// Whether an answer is still to come.
    asked: bool,
    /// What Redisson calls this client.
    pub(crate) id: String,
}

impl Client {
    /// Runs a command, which must not fail, and gives the answer.
    #[track_caller]
    pub(crate) fn call<T: FromStr<Err: fmt::Debug>>(&mut self, command: &str) -> T {
        self.begin(command);
        self.answer()
    }

    /// Runs a command that fails, and gives the error.
    #[track_caller]
    pub(crate) fn fails(&mut self, command: &str) -> String {
        self.begin(command);
        let answer = self.line();
        let error = answer.strip_prefix("error ");
        error.unwrap_or_else(|| panic!("`{command}` should have failed: {answer}")).to_owned()
    }

    /// Begins a command that takes its time; [`answer`](Self::answer) waits for its end.
    pub(crate) fn begin(&mut self, command: &str) {
        assert!(!self.asked, "one command at a time");
        self.asked = true;
        let jvm = self.jvm.as_mut().expect("a JVM until the end");
        writeln!(jvm.commands, "{command}").expect("the JVM reads");
    }

    /// The answer to the command that was begun.
    #[track_caller]
    pub(crate) fn answer<T: FromStr<Err: fmt::Debug>>(&mut self) -> T {
        let line = self.line();
        let failed = line.starts_with("error ") || line == "unsupported";
        assert!(!failed, "Redisson {}: {line}", self.version);
        line.parse().unwrap_or_else(|error| panic!("Redisson answers `{line}`: {error:?}"))
    }

    /// The answer as it was written, an error among them.
    pub(crate) fn line(&mut self) -> String {
        let jvm = self.jvm.as_mut().expect("a JVM until the end");
        let mut line = String::new();
        jvm.answers.read_line(&mut line).expect("the JVM writes UTF-8");
        assert!(line.ends_with('\n'), "the JVM ended: {:?}", jvm.child.wait());
        self.asked = false;
        line.trim_end().to_owned()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(mut jvm) = self.jvm.take() {
            if self.asked || thread::panicking() {
                let _ = jvm.child.kill();
                let _ = jvm.child.wait();
            } else {
                idle().entry(self.version).or_default().push(jvm);
            }
        }
    }
}

struct Jvm {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// JVMs that nobody uses, by version, since starting one takes longer than most tests. They end
/// when their input does, which is with this process.
fn idle() -> MutexGuard<'static, HashMap<&'static str, Vec<Jvm>>> {
    static IDLE: LazyLock<Mutex<HashMap<&'static str, Vec<Jvm>>>> = LazyLock::new(Mutex::default);
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What several threads of a client came to together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) granted: u64,
    pub(crate) refused: u64,
    pub(crate) errors: u64,
    /// The first of them.
    pub(crate) first_error: String,
}

impl FromStr for Load {
    type Err = String;

    fn from_str(answer: &str) -> Result<Self, String> {
        let words: Vec<&str> = answer.splitn(7, ' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
        let read = || {
            Some(Self {
                granted: number(1)?,
                refused: number(3)?,
                errors: number(5)?,
                first_error: words.get(6).copied().unwrap_or_default().to_owned(),
            })
        };
        read().ok_or_else(|| answer.to_owned())
    }
}
