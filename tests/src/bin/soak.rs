//! Twenty processes that come and go for as long as is asked: `cargo xtask soak MINUTES`.
//!
//! `soak MINUTES` keeps twenty processes of itself running beside one Redis. Each lives eight seconds to ten minutes, and
//! ends by `shutdown`, by returning from `main`, or by being killed. Every five seconds, the members that the store lists
//! are compared with the processes that live. `soak member URL MS HOW` is one of them.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, SystemTime},
};

use ratelimit_runtime::{Limits, Rejection, rate_limit};
use tests::{Random, place::since_1970, redis_server::RedisServer};

const PROCESSES: usize = 20;
/// How a process ends.
const ENDS: [&str; 3] = [SHUTDOWN, "return", KILL];
const SHUTDOWN: &str = "shutdown";
const KILL: &str = "kill";
const MEMBERS: &str = "ratelimit:~members";
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How long a member lives without a heartbeat, and some time to notice it.
const LIVES_MS: u64 = 30_000 + 1000;
/// The first heartbeat comes a second after the start.
const LISTED_AFTER_MS: u64 = 3000;
const LEFT_AFTER_MS: u64 = 1000;

#[rate_limit(key = "soaked", rate = 100, per = "1s")]
async fn called() -> Result<(), Rejection> {
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["member", url, ms, end] => {
            be_member(url, Duration::from_millis(ms.parse().unwrap()), end);
            ExitCode::SUCCESS
        }
        [minutes] => soak(Duration::from_secs(60 * minutes.parse::<u64>().unwrap())),
        _ => panic!("soak MINUTES"),
    }
}

/// One of the processes.
#[tokio::main(flavor = "current_thread")]
async fn be_member(url: &str, life: Duration, end: &str) {
    let limits = Limits::builder().redis(url).no_limits_file().install().await.unwrap();
    println!("up");
    let ended = tokio::time::Instant::now() + life;
    while tokio::time::Instant::now() < ended {
        called().await.unwrap();
        let next = tokio::time::Instant::now() + Duration::from_secs(7);
        tokio::time::sleep_until(next.min(ended)).await;
    }
    match end {
        SHUTDOWN => limits.shutdown().await,
        // The parent kills it, unless it was killed itself.
        KILL => tokio::time::sleep(Duration::from_secs(60)).await,
        _ => {}
    }
}

/// A process, as its parent knows it. Times are milliseconds since 1970.
struct Started {
    child: Child,
    end: &'static str,
    started: u64,
    ends: u64,
    up: Arc<OnceLock<u64>>,
    ended: Option<u64>,
}

impl Started {
    fn start(url: &str, life_ms: u64, end: &'static str) -> Self {
        let started = now();
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["member", url, &life_ms.to_string(), end])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (output, up) = (child.stdout.take().unwrap(), Arc::new(OnceLock::new()));
        let seen = Arc::clone(&up);
        thread::spawn(move || {
            for _ in BufReader::new(output).lines().map_while(Result::ok) {
                seen.get_or_init(now);
            }
        });
        Self { child, end, started, ends: started + life_ms, up, ended: None }
    }

    /// Ends a process that is to be killed, and looks whether it ended.
    fn look(&mut self) {
        if self.ended.is_none() {
            if self.end == KILL && now() >= self.ends {
                self.child.kill().unwrap();
                self.child.wait().unwrap();
            }
            self.ended = self.child.try_wait().unwrap().map(|_| now());
        }
    }

    /// Returns whether this member is that process: the system gives ids out again.
    fn is(&self, member: &Member) -> bool {
        let until = self.up.get().map_or(u64::MAX, |up| up + 100);
        member.pid == self.child.id() && (self.started..=until).contains(&member.since)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the store has of a process.
#[derive(Debug)]
struct Member {
    pid: u32,
    since: u64,
}

#[derive(Default)]
struct Checks {
    done: u64,
    most: usize,
    longest_ms: u64,
    faults: u64,
}

impl Checks {
    fn check(&mut self, server: &RedisServer, processes: &[Started]) {
        let before = now();
        let members = listed(server);
        self.done += 1;
        self.most = self.most.max(members.len());
        for process in processes {
            let up = process.up.get().is_some_and(|up| up + LISTED_AFTER_MS < before);
            if up && process.ended.is_none() && !members.iter().any(|member| process.is(member)) {
                self.fault(&format!("{} runs and is not listed", process.child.id()));
            }
        }
        for member in &members {
            let Some(process) = processes.iter().find(|process| process.is(member)) else {
                self.fault(&format!("{member:?} is not known"));
                continue;
            };
            let Some(ended) = process.ended else { continue };
            let listed = before.saturating_sub(ended);
            self.longest_ms = self.longest_ms.max(listed);
            let most = if process.end == SHUTDOWN { LEFT_AFTER_MS } else { LIVES_MS };
            if listed > most {
                self.fault(&format!("{member:?} is listed {listed} ms after its {}", process.end));
            }
        }
    }

    fn fault(&mut self, fault: &str) {
        self.faults += 1;
        println!("{}: {fault}", now());
    }
}

/// Returns the members, as they are kept: those of the sorted set, each with its hash.
fn listed(server: &RedisServer) -> Vec<Member> {
    let ids: Vec<String> = server.cli(&["ZRANGE", MEMBERS, "0", "-1"]);
    let member = |id: &String| {
        let key = format!("{{{MEMBERS}}}:{}", &id[8..]);
        let (pid, since): (Option<u32>, Option<u64>) = server.cli(&["HMGET", &key, "pid", "since"]);
        Some(Member { pid: pid?, since: since? / 1000 })
    };
    ids.iter().filter_map(member).collect()
}

fn soak(time: Duration) -> ExitCode {
    let server = RedisServer::start();
    let mut random = Random::new(now());
    let (mut processes, mut checks) = (Vec::<Started>::new(), Checks::default());
    let mut started = 0;
    let (start, mut next_check) = (now(), now());
    while now() - start < time.as_millis() as u64 {
        processes.iter_mut().for_each(Started::look);
        processes.retain(|process| process.ended.is_none_or(|at| now() - at < 2 * LIVES_MS));
        while processes.iter().filter(|process| process.ended.is_none()).count() < PROCESSES {
            let life_ms = match random.below(4) {
                0 => 60_000 + random.below(540_001),
                _ => 8000 + random.below(52_001),
            };
            let end = ENDS[random.below(3) as usize];
            processes.push(Started::start(&server.url(), life_ms, end));
            started += 1;
        }
        if now() >= next_check {
            checks.check(&server, &processes);
            next_check = now() + CHECK_EVERY.as_millis() as u64;
        }
        thread::sleep(Duration::from_millis(50));
    }
    processes.clear();
    thread::sleep(Duration::from_millis(LIVES_MS + 1000));
    let left: Vec<String> = server.cli(&["KEYS", &format!("*{MEMBERS}*")]);
    if !left.is_empty() {
        checks.fault(&format!("{left:?} outlived all processes"));
    }
    let Checks { done, most, longest_ms, faults } = checks;
    println!(
        "{started} processes in {} min, {done} checks: at most {most} listed, none longer than {} s after its end; \
         {faults} faults",
        time.as_secs() / 60,
        longest_ms.div_ceil(1000),
    );
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn now() -> u64 {
    since_1970(SystemTime::now())
}
