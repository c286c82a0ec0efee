//! One process whose callers wait for one leaky bucket, for tests that need several.
//!
//! `waiters URL KEY RATE PER_MS CALLERS EVERY_MS`: prints `ready`, reads a line, starts a caller every
//! `EVERY_MS`, and prints `SLOT WENT` for each: its reserved time by the server's clock, and the time of its
//! grant by the clock of this machine, in milliseconds. At last prints `stood still MS`: how late a timer was at
//! most meanwhile, which is the machine's doing.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_methods, reason = "its figures are those of the real clock")]

use std::{
    env, io,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

use ratelimit_runtime::{Limits, Quota};
use tests::place::{at, since_1970};

/// In milliseconds.
static STOOD_STILL: AtomicU64 = AtomicU64::new(0);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, key, rate, per_ms, callers, every_ms] = &arguments[..] else {
        panic!("waiters URL KEY RATE PER_MS CALLERS EVERY_MS");
    };
    let builder = Limits::builder().redis(url).no_limits_file().deadline(Duration::from_secs(5));
    let limits = builder.build().await.unwrap();
    let per = Duration::from_millis(per_ms.parse().unwrap());
    let quota = Quota::new(rate.parse().unwrap(), per).unwrap().leaky_bucket().unwrap();
    // Connects, without touching the limiter.
    let _ = limits.limiter("elsewhere", quota).try_acquire(1).await;
    println!("ready");
    io::stdin().read_line(&mut String::new()).unwrap();
    tokio::spawn(watch_timers());
    let (mut started, every) = (Vec::new(), Duration::from_millis(every_ms.parse().unwrap()));
    for _ in 0..callers.parse::<u32>().unwrap() {
        let limiter = limits.limiter(key, quota);
        started.push(tokio::spawn(async move {
            let permit = limiter.acquire(1).await.unwrap();
            (at(&permit), since_1970(SystemTime::now()))
        }));
        tokio::time::sleep(every).await;
    }
    for caller in started {
        let (slot, went) = caller.await.unwrap();
        println!("{slot} {went}");
    }
    println!("stood still {}", STOOD_STILL.load(Ordering::Relaxed));
}

async fn watch_timers() {
    const EVERY: Duration = Duration::from_millis(5);

    loop {
        let start = Instant::now();
        tokio::time::sleep(EVERY).await;
        let late = start.elapsed().saturating_sub(EVERY).as_millis();
        STOOD_STILL.fetch_max(u64::try_from(late).unwrap(), Ordering::Relaxed);
    }
}
