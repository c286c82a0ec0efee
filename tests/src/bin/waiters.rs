//! One process whose callers wait for one leaky bucket, for tests that need several.
//!
//! `waiters URL KEY RATE PER_MS CALLERS EVERY_MS`: prints `ready`, reads a line, starts a caller every
//! `EVERY_MS`, and prints `SLOT WENT` for each: its reserved time by the server's clock, and the time of its
//! grant by the clock of this machine, in milliseconds. At last prints `late MS`: how late the machine was at most
//! meanwhile.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_methods, reason = "its figures are those of the real clock")]

use std::{
    env, io,
    time::{Duration, SystemTime},
};

use ratelimit_runtime::{Limits, Quota};
use tests::{
    Lateness,
    place::{at, since_1970},
};

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
    let late = Lateness::watch(url).await;
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
    println!("late {}", late.most_ms());
}
