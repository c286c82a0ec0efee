//! One limiter, shared with Java: the tests against Redisson itself, in several of its versions.
//!
//! `cargo xtask interop` compiles the Java side and runs them.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "real processes live in real time, and figures are to be seen"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ratelimit_runtime::{Limits, Quota};
use tests::redis_server::RedisServer;

/// Makes a test of each case for each version of Redisson.
macro_rules! on_each_version {
    ($($case:ident),+ $(,)?) => {
        mod redisson_3_17 { cases!("3.17.7": $($case),+); }
        mod redisson_3_43 { cases!("3.43.0": $($case),+); }
        mod redisson_4 { cases!("4.7.0": $($case),+); }
    };
}

macro_rules! cases {
    ($version:literal: $($case:ident),+) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $case() {
            if let Some(redisson) = crate::redisson::Redisson::find($version) {
                super::$case(redisson).await;
            }
        }
    )+ };
}

#[path = "interop/bench.rs"]
mod bench;
#[path = "interop/direct.rs"]
mod direct;
#[path = "interop/model.rs"]
mod model;
#[path = "interop/redisson.rs"]
mod redisson;
#[path = "interop/state.rs"]
mod state;
#[path = "interop/timeline.rs"]
mod timeline;

#[path = "interop/changes.rs"]
mod changes;
#[path = "interop/example.rs"]
mod example;
#[path = "interop/fleet.rs"]
mod fleet;
#[path = "interop/format.rs"]
mod format;
#[path = "interop/healing.rs"]
mod healing;
#[path = "interop/keep_alive.rs"]
mod keep_alive;
#[path = "interop/large.rs"]
mod large;
#[path = "interop/operations.rs"]
mod operations;
#[path = "interop/random.rs"]
mod random;
#[path = "interop/sharing.rs"]
mod sharing;

#[test]
fn every_version_that_is_compiled_is_tested() {
    let compiled: Vec<_> = redisson::VERSIONS.lines().collect();
    assert_eq!(compiled, ["3.17.7", "3.43.0", "4.7.0"], "name each in `on_each_version`");
}

const MINUTE: Duration = Duration::from_secs(60);

/// One number for each run, another with `RATELIMIT_FULL_LENGTH=1`, which the figures are made with.
fn length<T>(short: T, full: T) -> T {
    if std::env::var_os("RATELIMIT_FULL_LENGTH").is_some() { full } else { short }
}

/// Limits of a process of ours, on this server and with this limits file.
async fn limits(server: &RedisServer, yaml: &str) -> Limits {
    let builder = Limits::builder().redis(server.url()).limits_yaml(yaml);
    builder.deadline(Duration::from_secs(2)).build().await.expect("limits")
}

fn quota(rate: u32, per: Duration) -> Quota {
    Quota::new(rate.into(), per).expect("a quota")
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).expect("a time after 1970");
    u64::try_from(since.as_millis()).expect("a time this side of the far future")
}
