//! The two stores, and a limiter of each rule, for tests that are about neither.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ratelimit_runtime::{Limits, LimitsBuilder, Permit, Quota};

use crate::{
    ledger::{Admission, Rule},
    redis_server::RedisServer,
};

/// Where limiters are counted.
#[derive(Debug)]
pub enum Place {
    /// In the process.
    Embedded,
    /// In a server of its own.
    Redis(RedisServer),
}

impl Place {
    /// In a server that is started for it.
    #[must_use]
    pub fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    /// Limits of this store, without a limits file. No decision misses its deadline because the
    /// machine is busy.
    pub fn builder(&self) -> LimitsBuilder {
        match self {
            Self::Embedded => Limits::builder().memory().no_limits_file(),
            Self::Redis(server) => {
                let builder = Limits::builder().redis(server.url()).no_limits_file();
                builder.deadline(Duration::from_secs(20))
            }
        }
    }

    /// As [`Place::builder`] makes them: as if by another process, if the store is shared.
    ///
    /// # Panics
    ///
    /// Panics when the store is not there.
    pub async fn limits(&self) -> Limits {
        self.builder().build().await.expect("limits without a file")
    }

    /// How much later than due something may be seen: none in paused time.
    #[must_use]
    pub fn slack_ms(&self) -> u64 {
        match self {
            Self::Embedded => 2,
            Self::Redis(_) => 60,
        }
    }
}

/// A limiter of each rule, with a name for it.
///
/// # Panics
///
/// Panics when a quota cannot be.
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

/// Milliseconds since 1970.
#[must_use]
pub fn since_1970(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// When a permit was granted, by the store's clock.
#[must_use]
pub fn at(permit: &Permit) -> u64 {
    since_1970(permit.at())
}

/// The record of a permit that is used as it is.
#[must_use]
pub fn admission(permit: &Permit) -> Admission {
    Admission { at_ms: at(permit), permits: permit.permits(), ..Admission::default() }
}
