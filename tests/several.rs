//! Several limits on one key: all or nothing, in one decision.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "several/decisions.rs"]
mod decisions;
#[path = "several/functions.rs"]
mod functions;
#[path = "several/manage.rs"]
mod manage;
#[path = "several/outage.rs"]
mod outage;
#[path = "several/reload.rs"]
mod reload;
#[path = "several/shared.rs"]
mod shared;
#[path = "several/waiting.rs"]
mod waiting;

use std::time::Duration;

use ratelimit_runtime::{
    Limiter, Limits, LimitsBuilder, Quota, Quotas, StoreErrorKind, test_util::ManualClock,
};
use tests::{limits_file::LimitsFile, redis_server::RedisServer};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

fn quota(rate: u32, per: Duration) -> Quota {
    Quota::new(rate.into(), per).unwrap()
}

fn both(one: Quota, other: Quota) -> Quotas {
    Quotas::new([one, other]).unwrap()
}

fn embedded(clock: &ManualClock) -> LimitsBuilder {
    Limits::builder().memory().clock(clock.clone()).no_limits_file()
}

fn on_redis(server: &RedisServer) -> LimitsBuilder {
    // Long enough that no decision misses it because the machine is busy.
    Limits::builder().redis(server.url()).deadline(20 * SECOND).no_limits_file()
}

/// What one permit gets right now: nothing, or the limits that refuse it and the wait in milliseconds.
async fn asked(limiter: &Limiter) -> Result<u64, (Vec<String>, u128)> {
    match limiter.try_acquire(1).await {
        Ok(decision) => {
            assert_eq!(decision.retry_after(), None, "{decision:?}");
            Ok(decision.remaining())
        }
        Err(rejection) => {
            let violated = rejection.violated().iter().map(ToString::to_string).collect();
            Err((violated, rejection.retry_after().unwrap().as_millis()))
        }
    }
}

fn refused(violated: &[&str], wait_ms: u128) -> Result<u64, (Vec<String>, u128)> {
    Err((violated.iter().map(|quota| (*quota).to_owned()).collect(), wait_ms))
}
