//! One limit for a Rust process and a Java process, which uses Redisson's `RRateLimiter`.
//!
//!     cargo xtask interop    # once, for the Java side; it takes a JDK and Maven
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example java_peer
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example java_peer 3.17.7 5
//!
//! The arguments are the version of Redisson (the newest available by default) and the seconds to run
//! for (10 by default).

use std::{
    env,
    error::Error,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ratelimit_runtime::{Limiter, Limits, Reason};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let Some(redis) = env::var("REDIS_URL").ok().as_deref().and_then(address) else {
        println!(
            "a Java process and this one meet in Redis (database 0, no password); start one with"
        );
        println!("`redis-server` or `docker run -p 6379:6379 redis`, then try again with");
        println!("REDIS_URL=redis://127.0.0.1/");
        return Ok(());
    };
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some(folder) = java_side(arguments.first()) else {
        println!(
            "the Java side is not compiled; `cargo xtask interop` does it, with a JDK and Maven"
        );
        return Ok(());
    };
    let seconds = arguments.get(1).map_or(Ok(10), |text| text.parse());
    let seconds = seconds.map_err(|_| "usage: java_peer [VERSION [SECONDS]]")?;

    let mut java = Java::start(&folder)?;
    java.ask(&format!("connect {redis}"))?;
    // A limiter of an earlier run would have its own configuration.
    java.ask("delete java_peer")?;
    java.ask("trySetRate java_peer OVERALL 50 1000")?;
    println!("Redisson {} sets {}", version(&folder), java.ask("getConfig java_peer")?);

    // Without its own configuration, this process uses the one that Java stored.
    let limits = Limits::builder().deadline(Duration::from_secs(1)).install().await?;
    let limiter = limits.configured("java_peer");
    limiter.acquire(1).await?;
    let quotas = limiter.quotas().ok_or("nobody configured the limiter")?;
    println!("Rust finds {quotas}");

    let end = Instant::now() + Duration::from_secs(seconds);
    let by_java = thread::spawn(move || java.load(end));
    let by_rust = load(&limiter, end).await?;
    let by_java = by_java.join().map_err(|_| "the thread that talks to Java ended")??;
    print_seconds(&by_rust, &by_java, seconds);
    Ok(())
}

/// Takes permits as fast as possible, and returns the times.
async fn load(limiter: &Limiter, end: Instant) -> Result<Vec<Instant>> {
    let mut taken = Vec::new();
    while Instant::now() < end {
        match limiter.try_acquire(1).await {
            Ok(_) => taken.push(Instant::now()),
            Err(rejection) if rejection.reason() == Reason::Limited => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(rejection) => return Err(rejection.into()),
        }
    }
    Ok(taken)
}

/// A JVM that executes commands, one per line; its program is in `tests/interop/java`.
struct Java {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Java {
    fn start(folder: &Path) -> Result<Self> {
        let classpath = format!("{0}/classes:{0}/lib/*", folder.display());
        let mut process = Command::new("java")
            .args(["-cp", &classpath, "interop.Driver"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = process.stdin.take().ok_or("no input")?;
        let answers = BufReader::new(process.stdout.take().ok_or("no output")?);
        Ok(Self { process, commands, answers })
    }

    fn ask(&mut self, command: &str) -> Result<String> {
        writeln!(self.commands, "{command}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.strip_prefix("error ") {
            Some(error) => Err(format!("Java: {error}").into()),
            None => Ok(answer.trim_end().to_owned()),
        }
    }

    fn load(mut self, end: Instant) -> Result<Vec<Instant>> {
        let mut taken = Vec::new();
        while Instant::now() < end {
            if self.ask("tryAcquire java_peer 1")? == "true" {
                taken.push(Instant::now());
            } else {
                thread::sleep(Duration::from_millis(1));
            }
        }
        // The end of its input is the end of the JVM.
        drop(self.commands);
        self.process.wait()?;
        Ok(taken)
    }
}

fn print_seconds(by_rust: &[Instant], by_java: &[Instant], seconds: u64) {
    let Some(start) = by_rust.iter().chain(by_java).min() else {
        return println!("nobody was admitted");
    };
    let within = |calls: &[Instant], second| {
        calls.iter().filter(|call| (**call - *start).as_secs() == second).count()
    };
    for second in 0..seconds {
        let (rust, java) = (within(by_rust, second), within(by_java, second));
        println!("second {:>2}: {:>2} = {rust} by Rust + {java} by Java", second + 1, rust + java);
    }
}

/// Where `cargo xtask interop` put the Java side: of this version, or of the newest there is.
fn java_side(wanted: Option<&String>) -> Option<PathBuf> {
    let beside = || Some(env::current_exe().ok()?.ancestors().nth(3)?.join("interop"));
    let folder = env::var_os("RATELIMIT_INTEROP").map(PathBuf::from).or_else(beside)?;
    let compiled = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let numbers = |path: &PathBuf| -> Vec<u32> {
        version(path).split('.').filter_map(|number| number.parse().ok()).collect()
    };
    compiled.filter(|path| wanted.is_none_or(|wanted| *wanted == version(path))).max_by_key(numbers)
}

fn version(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The host and port of a URL. The Java program takes neither a password nor another database than 0.
fn address(url: &str) -> Option<String> {
    let url = url.strip_prefix("redis://")?;
    let (host, database) = url.split_once('/').unwrap_or((url, ""));
    if host.contains('@') || !matches!(database, "" | "0") {
        return None;
    }
    Some(if host.contains(':') { host.to_owned() } else { format!("{host}:6379") })
}
