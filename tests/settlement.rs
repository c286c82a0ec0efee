//! What a call costs, known only when it is over: permits that failed calls give back, and charges.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "settlement/charges.rs"]
mod charges;
#[path = "settlement/max_debt.rs"]
mod max_debt;
#[path = "settlement/outage.rs"]
mod outage;
#[path = "settlement/refunds.rs"]
mod refunds;

use std::time::Duration;

use ratelimit_runtime::{Limiter, Limits, LimitsBuilder};
use tests::redis_server::RedisServer;

const SECOND: Duration = Duration::from_secs(1);

fn embedded(yaml: &str) -> LimitsBuilder {
    Limits::builder().memory().limits_yaml(yaml)
}

fn on_redis(server: &RedisServer, yaml: &str) -> LimitsBuilder {
    // Long enough that no decision misses it because the machine is busy.
    Limits::builder().redis(server.url()).limits_yaml(yaml).deadline(20 * SECOND)
}

/// What is owed after as much was paid as is free.
async fn owing(limiter: &Limiter) -> u64 {
    limiter.charge(0).await.unwrap().debt
}

async fn free(limiter: &Limiter) -> u64 {
    limiter.available_permits().await.unwrap()
}

/// Waits for a refund, which a call does not wait for.
async fn settled_at(limiter: &Limiter, left: u64) {
    let mut found = free(limiter).await;
    for _ in 0..500 {
        if found == left {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        found = free(limiter).await;
    }
    panic!("{found} are free, not {left}");
}
