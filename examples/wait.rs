//! How long a call may wait for its permit: forever, not at all, or up to a time.
//!
//!     cargo run -p examples --example wait
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example wait

use std::time::Instant;

use ratelimit_runtime::{Rejection, SetupError, rate_limit};
use tokio::join;

/// Waits until its permit is free. It is never rejected, so it may return any type.
#[rate_limit(key = "crawl", rate = 1, per = "1s")]
async fn crawl(start: Instant) {
    show(start, Ok(()));
}

/// Runs immediately or not at all.
#[rate_limit(key = "search", rate = 1, per = "1s", wait = "none")]
async fn search() -> Result<(), Rejection> {
    Ok(())
}

/// Waits for at most one and a half seconds. A call that cannot get its permit by then is rejected
/// immediately, not when the time is over.
#[rate_limit(key = "export", rate = 1, per = "1s", wait = "1500ms")]
async fn export() -> Result<(), Rejection> {
    Ok(())
}

fn show(start: Instant, result: Result<(), Rejection>) {
    let seconds = start.elapsed().as_secs_f32();
    match result {
        Ok(()) => println!("  {seconds:.2} s: done"),
        Err(rejection) => println!("  {seconds:.2} s: {rejection}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), SetupError> {
    ratelimit_runtime::init().await?;

    println!("three calls that wait forever");
    let start = Instant::now();
    join!(crawl(start), crawl(start), crawl(start));

    println!("three calls that do not wait");
    let start = Instant::now();
    for _ in 0..3 {
        show(start, search().await);
    }

    println!("three calls that wait for 1.5 s");
    let start = Instant::now();
    let timed = async || show(start, export().await);
    join!(timed(), timed(), timed());
    Ok(())
}
