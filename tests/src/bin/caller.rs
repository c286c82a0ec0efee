//! One process with one caller of a limiter, for tests of how permits are distributed.
//!
//! `caller URL KEY RATE PER_MS RUN_MS blocked|fast|MS`: waits for each permit, or retries
//! immediately, or every `MS` milliseconds. Prints `ready`, runs for its time after a line of input,
//! and then prints `admitted MS` for each grant by the server's clock, and `tried N`.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_methods, reason = "a real process lives in real time")]

use std::{env, time::Duration};

use ratelimit_runtime::{Limiter, Limits, Quota};
use tests::place::at;
use tokio::time::{Instant, sleep, timeout_at};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, key, rate, per_ms, run_ms, pace] = &arguments[..] else {
        panic!("caller URL KEY RATE PER_MS RUN_MS blocked|fast|MS");
    };
    let millis = |text: &String| Duration::from_millis(text.parse().unwrap());
    let limits = Limits::builder().redis(url).no_limits_file().deadline(Duration::from_secs(1));
    let limits = limits.build().await.unwrap();
    let quota = Quota::new(rate.parse().unwrap(), millis(per_ms)).unwrap();
    let limiter = limits.limiter(key, quota);
    limiter.available_permits().await.unwrap();
    println!("ready");
    let started = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    started.await.unwrap().unwrap();
    let mut tried = 0_u64;
    let mut admitted = Vec::new();
    let until = Instant::now() + millis(run_ms);
    while Instant::now() < until {
        tried += 1;
        if let Some(at) = attempt(&limiter, pace, until).await {
            admitted.push(at);
        }
    }
    for at in admitted {
        println!("admitted {at}");
    }
    println!("tried {tried}");
}

/// Makes one call and pauses. Returns when the call was admitted, if it was.
async fn attempt(limiter: &Limiter, pace: &str, until: Instant) -> Option<u64> {
    let permit = match pace {
        "blocked" => timeout_at(until, limiter.acquire(1)).await.ok()?,
        _ => limiter.try_acquire(1).await,
    };
    match pace {
        "blocked" => {}
        "fast" => tokio::task::yield_now().await,
        ms => sleep(Duration::from_millis(ms.parse().unwrap())).await,
    }
    let permit = permit.ok().filter(|permit| !permit.is_degraded())?;
    Some(at(&permit))
}
