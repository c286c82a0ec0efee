//! Limiters on the embedded store, for measurements within the process.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use ratelimit_runtime::{Limiter, Limits, Quota, Rejection, rate_limit};

/// The number of users.
pub const USERS: u64 = 100_000;
/// More permits than any bench takes in a second.
pub const UNREACHED: u32 = 2_000_000_000;

/// An annotated function under one key.
///
/// # Errors
///
/// Returns a rejection of the limiter.
#[rate_limit(key = "fixed", rate = 2_000_000_000, per = "1s", wait = "none")]
pub async fn fixed(number: u64) -> Result<u64, Rejection> {
    Ok(body(number))
}

/// An annotated function under one key, with a token bucket.
///
/// # Errors
///
/// Returns a rejection of the limiter.
#[rate_limit(
    key = "fixed_bucket",
    rate = 2_000_000_000,
    per = "1s",
    algorithm = "token_bucket",
    wait = "none"
)]
pub async fn fixed_bucket(number: u64) -> Result<u64, Rejection> {
    Ok(body(number))
}

/// An annotated function whose calls each take more permits than are allotted to a millisecond, so that each of them takes
/// the lock of its limiter, as calls do that are alone in their millisecond.
///
/// # Errors
///
/// Returns a rejection of the limiter.
#[rate_limit(
    key = "fixed_alone",
    rate = 2_000_000_000,
    per = "10ms",
    algorithm = "token_bucket",
    permits = 3000,
    wait = "none"
)]
pub async fn fixed_alone(number: u64) -> Result<u64, Rejection> {
    Ok(body(number))
}

/// An annotated function under a token bucket for each user.
///
/// # Errors
///
/// Returns a rejection of the limiter.
#[rate_limit(
    key = "bucket:{id}",
    rate = 2_000_000_000,
    per = "1s",
    algorithm = "token_bucket",
    wait = "none"
)]
pub async fn bucket_of_user(id: u64) -> Result<u64, Rejection> {
    Ok(body(id))
}

/// An annotated function under a key for each user.
///
/// # Errors
///
/// Returns a rejection of the limiter.
#[rate_limit(key = "user:{id}", rate = 2_000_000_000, per = "1s", wait = "none")]
pub async fn of_user(id: u64) -> Result<u64, Rejection> {
    Ok(body(id))
}

/// An annotated function that admits each user only once.
///
/// # Errors
///
/// Returns a rejection of the limiter.
#[rate_limit(key = "once:{id}", rate = 1, per = "1h", wait = "none")]
pub async fn once_per_user(id: u64) -> Result<u64, Rejection> {
    Ok(body(id))
}

/// The limited function body.
#[inline(never)]
pub fn body(number: u64) -> u64 {
    number.wrapping_mul(3)
}

/// Installs the embedded store in this process, once.
///
/// # Panics
///
/// Panics if the process already has other limits.
pub fn install() -> Limits {
    let yaml = "limiters:\n  counted_here: { mode: per_client }\n";
    let builder = Limits::builder().memory().limits_yaml(yaml);
    ready(builder.install()).expect("the first limits of this process")
}

/// Returns a limiter that never rejects a call.
pub fn plenty(limits: &Limits, name: &str) -> Limiter {
    limits.limiter(name, unreached())
}

/// Returns a limiter that rejects all calls from now on.
pub fn used_up(limits: &Limits, name: &str) -> Limiter {
    let limiter = limits.limiter(name, once());
    let _ = ready(limiter.try_acquire(1));
    limiter
}

/// Returns a quota that no bench reaches.
///
/// # Panics
///
/// Never.
pub fn unreached() -> Quota {
    Quota::new(UNREACHED.into(), Duration::from_secs(1)).expect("a quota that can be")
}

/// Returns a quota of one permit for a window longer than any measurement.
///
/// # Panics
///
/// Never.
pub fn once() -> Quota {
    Quota::new(1, Duration::from_secs(3600)).expect("a quota that can be")
}

/// Runs a future that never has to wait.
///
/// # Panics
///
/// Panics if it waits.
pub fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waited"),
    }
}
