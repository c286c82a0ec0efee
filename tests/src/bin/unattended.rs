//! A program that uses limits without installing any, for tests of the defaults. With the variable `LATE` it installs
//! limits too late.

use ratelimit_runtime::{Limits, Rejection, limiter, rate_limit};

#[rate_limit(key = "unattended", rate = 1, per = "1h", wait = "none")]
async fn fallible() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "unattended:{user}", rate = 1, per = "1h", wait = "none")]
async fn fallible_of(user: &str) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "unattended-forever", rate = 9, per = "1h")]
async fn infallible() {}

#[rate_limit(key = "unattended-forever:{user}", rate = 9, per = "1h")]
async fn infallible_of(user: &str) {}

#[rate_limit(key = "unattended-forever", rate = 9, per = "1h", wait = "none")]
async fn shared() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "unattended-forever:{user}", rate = 9, per = "1h", wait = "none")]
async fn shared_of(user: &str) -> Result<(), Rejection> {
    Ok(())
}

#[tokio::main]
async fn main() {
    if std::env::var_os("LATE").is_some() {
        let _handle = limiter!("unattended");
        let error = Limits::builder().install().await.unwrap_err();
        return println!("{error}");
    }
    let said = |result: Result<(), Rejection>| match result {
        Ok(()) => "ok".to_owned(),
        Err(rejection) => format!("{:?}", rejection.reason()),
    };
    for call in ["first", "second"] {
        println!("{call} {}, {}", said(fallible().await), said(fallible_of("ada").await));
    }
    infallible().await;
    infallible_of("ada").await;
    for call in ["third", "fourth"] {
        println!("{call} {}, {}", said(shared().await), said(shared_of("ada").await));
    }
}
