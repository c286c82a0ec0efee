//! The life of a service: whether it is ready, how it ends, and how its limits are reloaded meanwhile.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "life/config.rs"]
mod config;
#[path = "life/connect.rs"]
mod connect;
#[path = "life/health.rs"]
mod health;
#[path = "life/max_keys.rs"]
mod max_keys;
#[path = "life/reload.rs"]
mod reload;
#[path = "life/report.rs"]
mod report;
#[path = "life/shutdown.rs"]
mod shutdown;

use std::time::Duration;

use ratelimit_runtime::{Limits, Quota};
use tests::redis_server::RedisServer;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
/// The machine that tests is busy.
const DEADLINE: Duration = Duration::from_millis(500);

fn quota(rate: u64, per: Duration) -> Quota {
    Quota::new(rate, per).unwrap()
}

async fn limits(server: &RedisServer, yaml: &str) -> Limits {
    let builder = Limits::builder().redis(server.url()).limits_yaml(yaml).deadline(DEADLINE);
    builder.build().await.unwrap()
}
