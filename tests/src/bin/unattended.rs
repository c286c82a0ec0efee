//! A program that never installs any limits, for tests of the defaults.

use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "unattended", rate = 1, per = "1h", wait = "none")]
async fn fallible() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "unattended-forever", rate = 9, per = "1h")]
async fn infallible() {}

#[tokio::main]
async fn main() {
    for call in ["first", "second"] {
        match fallible().await {
            Ok(()) => println!("{call} ok"),
            Err(rejection) => println!("{call} {:?}", rejection.reason()),
        }
    }
    infallible().await;
    println!("forever ok");
}
