//! Outbound requests that keep to a limit: what the upstream sees, and what callers get.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "client/asked.rs"]
mod asked;
#[path = "client/order.rs"]
mod order;
#[path = "client/paced.rs"]
mod paced;
#[path = "client/upstream.rs"]
mod upstream;

use std::time::Duration;

use ratelimit_runtime::{Limits, Quota};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn quota(rate: u64, per: Duration) -> Quota {
    Quota::new(rate, per).unwrap()
}

async fn embedded() -> Limits {
    Limits::builder().memory().no_limits_file().build().await.unwrap()
}
