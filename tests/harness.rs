//! The support is tested like what it supports: a fault test proves nothing when the fault did not
//! happen.
#![allow(clippy::disallowed_methods, reason = "real processes live in real time")]

#[path = "harness/cluster.rs"]
mod cluster;
#[path = "harness/leaks.rs"]
mod leaks;
#[path = "harness/proxy.rs"]
mod proxy;
#[path = "harness/sentinel.rs"]
mod sentinel;
#[path = "harness/server.rs"]
mod server;
#[path = "harness/tls.rs"]
mod tls;

/// The code of the error a server answered with, such as `MOVED`.
fn code<T>(result: redis::RedisResult<T>) -> Option<String> {
    result.err()?.code().map(str::to_owned)
}
