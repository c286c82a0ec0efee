//! A program that uses limits without installing any, for tests of the defaults. With the variable `LATE` it installs
//! limits too late.

use ratelimit_runtime::{Limits, Rejection, limiter, rate_limit};

#[rate_limit(key = "unattended", rate = 1, per = "1h", wait = "none")]
async fn fallible() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "unattended-forever", rate = 9, per = "1h")]
async fn infallible() {}

#[tokio::main]
async fn main() {
    if std::env::var_os("LATE").is_some() {
        let _handle = limiter!("unattended");
        let error = Limits::builder().install().await.unwrap_err();
        return println!("{error}");
    }
    for call in ["first", "second"] {
        match fallible().await {
            Ok(()) => println!("{call} ok"),
            Err(rejection) => println!("{call} {:?}", rejection.reason()),
        }
    }
    infallible().await;
    println!("forever ok");
}
