//! A function that runs twice a second, however often it is called.
//!
//!     cargo run -p examples --example hello
//!     REDIS_URL=redis://127.0.0.1/ cargo run -p examples --example hello

use std::time::Instant;

use ratelimit_runtime::{SetupError, rate_limit};

#[rate_limit(key = "hello", rate = 2, per = "1s")]
async fn hello(call: u32, start: Instant) {
    let seconds = start.elapsed().as_secs_f32();
    println!("call {call} got through after {seconds:.2} s");
}

#[tokio::main]
async fn main() -> Result<(), SetupError> {
    let limits = ratelimit_runtime::init().await?;
    println!("store: {}", limits.report().store);

    let start = Instant::now();
    for call in 1..=10 {
        hello(call, start).await;
    }
    Ok(())
}
