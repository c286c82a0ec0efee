//! Support for the tests of this folder: real Redis processes, and tools to observe and disturb
//! them.
//!
//! A test starts its own server, cluster or set of sentinels; nothing is shared between test
//! processes and nothing outlives them. All calls here block and none needs a runtime, so they work
//! the same in `#[test]` and `#[tokio::test]`: servers reply from their own processes, the proxy
//! from its own thread.
//!
//! - [`redis_server::RedisServer`], [`redis_cluster::RedisCluster`],
//!   [`redis_sentinel::RedisSentinel`], [`tls::TlsServer`]: the processes, which tests can kill,
//!   suspend and restart.
//! - [`proxy::Proxy`]: a network that can be cut, stalled or slowed down.
//! - [`ledger`]: checks whether a limiter admitted a call whose permits were not free.
//! - [`limits_file::LimitsFile`]: a limits file that changes while a program runs.
//! - [`monitor`]: the commands that a server received.
//! - [`decide`]: direct calls of stores and scripts, without a limiter.
//! - [`Lateness`]: when the machine was late, rather than what a test observes.
//! - [`Random`]: numbers that look random, for a load with a seed.
//! - [`random_histories`]: a property, over random histories with a seed.
//! - [`window`]: checks whether any window of a recorded history admitted too much.
#![allow(
    clippy::disallowed_methods,
    reason = "real processes live in real time; the clock is what is tested with them"
)]

pub mod alone;
mod binary;
mod built;
pub mod decide;
mod examples;
mod histories;
mod lateness;
pub mod ledger;
pub mod limits_file;
pub mod monitor;
mod notes;
pub mod place;
pub mod ports;
mod process;
pub mod proxy;
mod random;
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
pub use lateness::Lateness;
pub use notes::{could_not_run, note};
pub use random::Random;
pub use waiting::{eventually, poll_once, soon};

/// The README's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
