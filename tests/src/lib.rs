//! Support for the tests of this folder: real Redis processes, and the means to watch and disturb
//! them.
//!
//! A test starts its own server, cluster or set of sentinels; nothing is shared between test
//! processes and nothing outlives them. All calls here block and none needs a runtime, so they work
//! alike in `#[test]` and `#[tokio::test]`: servers answer from their own processes, the proxy from
//! its own thread.
//!
//! - [`redis_server::RedisServer`], [`redis_cluster::RedisCluster`],
//!   [`redis_sentinel::RedisSentinel`], [`tls::TlsServer`]: the processes, with their ways to die,
//!   hang and come back.
//! - [`proxy::Proxy`]: a network that can be cut, stalled or slowed down.
//! - [`ledger`]: did a limiter admit a call whose permits were not free?
//! - [`limits_file::LimitsFile`]: a limits file that changes while a program runs.
//! - [`monitor`]: the commands a server was sent.
//! - [`decide`]: questions to stores and scripts, past the limiter.
//! - [`random_histories`]: a property, over histories of a seed.
//! - [`window`]: did any window of a recorded history admit too much?
#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time; the clock is what is tested with them"
)]

mod binary;
mod built;
pub mod decide;
mod examples;
mod histories;
pub mod ledger;
pub mod limits_file;
pub mod monitor;
mod notes;
pub mod place;
pub mod ports;
mod process;
pub mod proxy;
pub mod redis_cluster;
pub mod redis_sentinel;
pub mod redis_server;
pub mod state;
pub mod tls;
mod waiting;
pub mod window;

pub use binary::{server_binary, server_version};
pub use built::cargo;
pub use examples::{example, profile_dir};
pub use histories::random_histories;
pub use notes::{could_not_run, note};
pub use waiting::eventually;

/// The README's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
