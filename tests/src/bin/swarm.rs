//! One process with many tasks that use one limiter, for tests that need several such processes.
//!
//! `swarm URL LIMITS_FILE KEY TASKS RUN_MS SEED COSTS DROPS CHANGES`: prints `ready`; after a line of input,
//! each task repeatedly acquires up to COSTS permits, drops DROPS of 100 calls and corrects the cost
//! of CHANGES of 100. A line `reload` reads the limits file again. When its time is over, it prints
//! each admission: `AT PERMITS`, then `-MS:N` for returned permits and `+FROM:UNTIL:N` for additional
//! permits, in milliseconds since 1970; `late FROM UNTIL` for each time at which the machine let a timer or a
//! plain command to the server wait; `tried N`; and `over`.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_methods, reason = "its figures are those of the real clock")]

use std::{
    env,
    fmt::Write,
    io,
    str::FromStr,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, SystemTime},
};

use ratelimit_runtime::{Limiter, Limits, Permit};
use tests::{
    Lateness, Random,
    ledger::Admission,
    place::{admission, since_1970},
};
use tokio::time::{Instant, sleep, timeout, timeout_at};

#[derive(Clone, Copy)]
struct Habits {
    costs: u64,
    drops: u64,
    changes: u64,
}

#[derive(Default)]
struct Record {
    admissions: Vec<Admission>,
    tried: u64,
}

fn percent(random: &mut Random, percent: u64) -> bool {
    random.below(100) < percent
}

fn number<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

fn now() -> u64 {
    since_1970(SystemTime::now())
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, file, key, tasks, run_ms, seed, costs, drops, changes] = &arguments[..] else {
        panic!("swarm URL LIMITS_FILE KEY TASKS RUN_MS SEED COSTS DROPS CHANGES");
    };
    let habits = Habits { costs: number(costs), drops: number(drops), changes: number(changes) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let builder = Limits::builder().redis(url).limits_file(file).deadline(Duration::from_secs(20));
    let limits = runtime.block_on(builder.build()).unwrap();
    // Connects, without touching the limiter.
    runtime.block_on(async { drop(limits.configured("elsewhere").try_acquire(1).await) });
    println!("ready");
    io::stdin().read_line(&mut String::new()).unwrap();
    let (lines, input) = mpsc::channel();
    std::thread::spawn(move || {
        io::stdin().lines().map_while(Result::ok).all(|line| lines.send(line).is_ok())
    });
    let record = Arc::new(Mutex::new(Record::default()));
    let late = runtime.block_on(async {
        let late = Lateness::watch(url).await;
        let end = Instant::now() + Duration::from_millis(number(run_ms));
        let task = |n: u64| {
            let random = Random::new(number::<u64>(seed).wrapping_mul(1_000_003).wrapping_add(n));
            tokio::spawn(call(limits.configured(key), habits, random, end, Arc::clone(&record)))
        };
        let tasks: Vec<_> = (0..number(tasks)).map(task).collect();
        while Instant::now() < end {
            for _ in input.try_iter() {
                limits.reload().unwrap();
            }
            sleep(Duration::from_millis(5)).await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        // Time for permits that are returned in the background.
        sleep(Duration::from_millis(300)).await;
        late.times()
    });
    let record = record.lock().unwrap();
    for Admission { at_ms, permits, returned, added } in &record.admissions {
        let mut line = format!("{at_ms} {permits}");
        returned.iter().for_each(|(at, n)| write!(line, " -{at}:{n}").unwrap());
        added.iter().for_each(|(from, until, n)| write!(line, " +{from}:{until}:{n}").unwrap());
        println!("{line}");
    }
    late.iter().for_each(|(from, until)| println!("late {from} {until}"));
    println!("tried {}\nover", record.tried);
}

async fn call(
    limiter: Limiter,
    habits: Habits,
    mut random: Random,
    end: Instant,
    record: Arc<Mutex<Record>>,
) {
    while Instant::now() < end {
        let permits = 1 + random.below(habits.costs);
        record.lock().unwrap().tried += 1;
        let way = random.below(4);
        let wait = async {
            match way {
                0 if habits.costs > 1 => {
                    limiter.acquire_timeout(permits, Duration::from_millis(300)).await
                }
                _ => limiter.acquire(permits).await,
            }
        };
        let permit = if percent(&mut random, habits.drops) {
            timeout(Duration::from_millis(random.below(200)), wait).await
        } else {
            timeout_at(end, wait).await
        };
        match permit {
            Ok(Ok(permit)) => {
                assert!(!permit.is_degraded(), "the store answers");
                let changes = percent(&mut random, habits.changes);
                let admission =
                    if changes { change(permit, &mut random).await } else { admission(&permit) };
                record.lock().unwrap().admissions.push(admission);
            }
            Ok(Err(_)) => sleep(Duration::from_millis(random.below(20))).await,
            Err(_) => {}
        }
    }
}

/// Corrects the cost of a call, after a while.
async fn change(permit: Permit, random: &mut Random) -> Admission {
    let mut admission = admission(&permit);
    sleep(Duration::from_millis(random.below(60))).await;
    let (permits, from) = (permit.permits(), now());
    match random.below(3) {
        0 => {
            let back = permit.give_back().await.unwrap();
            admission.returned.push((from, back));
        }
        1 => {
            let settled = permit.settle(random.below(permits * 2 + 1)).await.unwrap();
            admission.returned.push((from, settled.returned));
            if settled.debt == 0 {
                admission.added.push((from, now(), settled.taken));
            }
        }
        _ => {
            let used = random.below(permits + 1);
            permit.record(used);
            drop(permit);
            // Not before now, and at most this many.
            admission.returned.push((from, permits - used));
        }
    }
    admission
}
