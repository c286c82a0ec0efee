//! A program with two places that disagree on one key, for the test of what it is told.

use ratelimit_runtime::{Limits, rate_limit};

#[rate_limit(key = "shared", rate = 1, per = "1s")]
async fn one() {}

#[rate_limit(key = "shared", rate = 2, per = "1s")]
async fn other() {}

#[tokio::main]
async fn main() {
    match Limits::builder().memory().no_limits_file().build().await {
        Ok(_) => println!("it started"),
        Err(error) => println!("{error}"),
    }
    let _ = (one(), other());
}
