//! The two stores, and a limiter of each rule, for tests that run with all of them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ratelimit_runtime::{Limits, LimitsBuilder, Permit, Quota, Rejection};

use crate::{
    ledger::{Admission, Rule},
    redis_server::RedisServer,
};

/// The store of the limiters.
#[derive(Debug)]
pub enum Place {
    /// In the process.
    Embedded,
    /// In a separate server.
    Redis(RedisServer),
}

impl Place {
    /// Starts a server for the limiters.
    #[must_use]
    pub fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    /// Builds limits on this store, without a limits file. The deadline is long enough for a busy
    /// machine.
    pub fn builder(&self) -> LimitsBuilder {
        match self {
            Self::Embedded => Limits::builder().memory().no_limits_file(),
            Self::Redis(server) => {
                let builder = Limits::builder().redis(server.url()).no_limits_file();
                builder.deadline(Duration::from_secs(20))
            }
        }
    }

    /// Builds limits with [`Place::builder`]: as if by another process, if the store is shared.
    ///
    /// # Panics
    ///
    /// Panics if the store is unavailable.
    pub async fn limits(&self) -> Limits {
        self.builder().build().await.expect("limits without a file")
    }

    /// Returns how late an event may be observed: no delay in paused time.
    #[must_use]
    pub fn slack_ms(&self) -> u64 {
        match self {
            Self::Embedded => 2,
            Self::Redis(_) => 60,
        }
    }
}

/// Returns a limiter of each rule, with its name.
///
/// # Panics
///
/// Panics if a quota is invalid.
#[must_use]
pub fn rules(rate: u64, per: Duration) -> [(&'static str, Rule, Quota); 5] {
    let quota = Quota::new(rate, per).expect("a quota");
    let token = quota.token_bucket(rate).expect("a bucket");
    let leaky = quota.leaky_bucket().expect("a bucket");
    let warming = quota.warming_bucket(per * 2).expect("a bucket");
    [
        ("sliding", Rule::SlidingWindow, quota),
        ("fixed", Rule::FixedWindow, quota.fixed_window()),
        ("token", Rule::TokenBucket(rate), token),
        ("leaky", Rule::LeakyBucket, leaky),
        ("warming", Rule::LeakyBucket, warming),
    ]
}

/// Returns milliseconds since 1970.
#[must_use]
pub fn since_1970(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns when a permit was granted, by the store's clock.
#[must_use]
pub fn at(permit: &Permit) -> u64 {
    since_1970(permit.at())
}

/// Returns when a rejected call could be admitted, by the store's clock.
///
/// # Panics
///
/// Panics if the rejection says nothing about it.
#[must_use]
pub fn due(rejection: &Rejection) -> u64 {
    let at = rejection.decision().expect("a decision").at();
    since_1970(at + rejection.retry_after().expect("a time"))
}

/// Returns the time by the store's clock, in milliseconds since 1970.
///
/// # Panics
///
/// Panics if the store is unavailable.
pub async fn now(limits: &Limits) -> u64 {
    let plenty = Quota::new(1_000_000, Duration::from_secs(1)).expect("a quota");
    at(&limits.limiter("clock", plenty).acquire(1).await.expect("the time"))
}

/// Waits until a window of this length has just begun, by the store's clock.
///
/// # Panics
///
/// Panics if the store is unavailable.
pub async fn window_begins(limits: &Limits, per_ms: u64) {
    let now = now(limits).await;
    tokio::time::sleep(Duration::from_millis(per_ms - now % per_ms)).await;
}

/// Returns the record of a permit that is used unchanged.
#[must_use]
pub fn admission(permit: &Permit) -> Admission {
    Admission { at_ms: at(permit), permits: permit.permits(), ..Admission::default() }
}
