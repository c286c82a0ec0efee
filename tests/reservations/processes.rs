//! Two processes whose callers wait for one limiter.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use ratelimit_runtime::{Limits, Quota};
use tests::{
    monitor::{Entry, Monitor},
    redis_server::RedisServer,
};

const CALLERS: usize = 100;
const SLOT_MS: u64 = 10;
/// A second.
const LEAD: u64 = 100;

struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn start(server: &RedisServer) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_waiters"))
            .args([&server.url(), "lim", "100", "1000", &CALLERS.to_string(), "5"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, lines };
        assert_eq!(process.line(), "ready");
        process
    }

    fn go(&mut self) {
        self.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// When each of its callers was to go, and when it went.
    fn went(&mut self) -> Vec<(u64, u64)> {
        let caller = |line: String| {
            let (slot, went) = line.split_once(' ').unwrap();
            (slot.parse().unwrap(), went.parse().unwrap())
        };
        (0..CALLERS).map(|_| caller(self.line())).collect()
    }

    /// How late the machine was for the process at most, in milliseconds.
    fn late(&mut self) -> u64 {
        self.line().strip_prefix("late ").unwrap().parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A caller that went: its slot, how late it was, and of which process it is.
#[derive(Clone, Copy, Debug)]
struct Went {
    slot: u64,
    late: u64,
    process: usize,
}

/// Takes the first slots of the limiter, so that every caller comes while there is something to wait for,
/// also on a busy machine.
#[tokio::main(flavor = "current_thread")]
async fn take_slots(server: &RedisServer, slots: u64) {
    let builder = Limits::builder().redis(server.url()).no_limits_file();
    // As long as that of the callers.
    let limits = builder.deadline(Duration::from_secs(5)).build().await.unwrap();
    let quota = Quota::new(1000 / SLOT_MS, Duration::from_secs(1)).unwrap();
    limits.limiter("lim", quota.leaky_bucket().unwrap()).try_acquire(slots).await.unwrap();
}

/// Returns how many slots a call reserves: more than one after slow replies, as on a busy machine. Its
/// costs are `1`, or `1*2`.
fn slots_of(call: &Entry) -> usize {
    call.args[6].split_once('*').map_or(1, |(_, count)| count.parse().unwrap())
}

/// ```sh
/// cargo test -p tests --test reservations two_processes -- --nocapture
/// ```
#[test]
fn two_processes_take_slots_in_the_order_they_ask_with_one_call_each() {
    let server = RedisServer::start();
    let mut processes = [Process::start(&server), Process::start(&server)];
    let monitor = Monitor::start(&server);
    take_slots(&server, LEAD);
    processes.iter_mut().for_each(Process::go);
    let mut went = Vec::new();
    for (process, callers) in processes.iter_mut().map(Process::went).enumerate() {
        went.extend(callers.into_iter().map(|(slot, went)| Went {
            slot,
            late: went.checked_sub(slot).expect("nobody goes before its slot"),
            process,
        }));
    }
    let mut entries = monitor.finish();
    entries.retain(|entry| entry.command() == "EVALSHA" && entry.args[3] == "lim");
    went.sort_by_key(|went| went.slot);

    let machine = processes.iter_mut().map(Process::late).max().unwrap();
    let late = went.iter().map(|went| went.late).max().unwrap();
    let changes = went.windows(2).filter(|pair| pair[0].process != pair[1].process).count();
    println!(
        "{} callers: {} calls, {late} ms late at most, the machine {machine} ms, {changes} changes of process",
        went.len(),
        entries.len()
    );
    assert!(late < 100 + machine, "{late} ms, the machine {machine} ms");
    // The first of each process find out that there is something to wait for.
    assert!(entries.len() <= went.len() + 8, "{} calls", entries.len());
    assert!(changes > CALLERS / 2, "{changes} changes: neither process starves the other");

    // Slots are handed out in the order of the calls, whichever process makes them.
    let reserve = &entries[entries.len() - 1].args[1];
    let calls = entries.iter().filter(|entry| entry.args[1] == *reserve);
    let reserved: Vec<&Entry> = calls.flat_map(|call| vec![call; slots_of(call)]).collect();
    assert_eq!(reserved.len(), went.len(), "every caller has a slot of its own");
    let mut source_of = [None, None];
    for (call, went) in reserved.iter().zip(&went) {
        let source = source_of[went.process].get_or_insert(&call.source);
        assert_eq!(**source, call.source, "the slot at {} is another's", went.slot);
    }
    assert_ne!(source_of[0], source_of[1]);

    // A slot begins where the one before ends, or later only if it was reserved later.
    for (call, pair) in reserved[1..].iter().zip(went.windows(2)) {
        let (due, slot) = (pair[0].slot + SLOT_MS, pair[1].slot);
        let on_time = slot == due || (due < slot && slot <= call.at_ms + 1);
        assert!(on_time, "due at {due}, at {slot}, reserved at {}", call.at_ms);
    }
}
