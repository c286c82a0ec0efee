//! This project, as a program uses it.

use std::time::Duration;

use ratelimit_runtime::{Limiter, Limits, Quota, Reason, Rejection, SetupError, rate_limit};

use super::Limit;
use crate::load::Decide;

/// Far longer than a call waits in a saturated loop, so that no call is decided without Redis.
const DEADLINE: Duration = Duration::from_secs(30);

/// More than the keys of both algorithms, so that one of them does not evict the other's limiters between rounds.
const REMEMBERED: usize = 400_000;

/// Installs our limits in this process.
///
/// # Errors
///
/// Returns the setup error.
pub async fn install(url: &str) -> Result<Limits, SetupError> {
    let yaml = "limiters:\n  \"ours:per_client:0\": { mode: per_client }\n";
    Limits::builder()
        .redis(url)
        .deadline(DEADLINE)
        .limits_yaml(yaml)
        .max_remembered(REMEMBERED)
        .install()
        .await
}

/// A single limiter, or an annotated function if there are many.
pub enum Ours {
    Held(Limiter),
    Windows { keys: usize },
    Buckets { keys: usize },
}

#[rate_limit(key = "ours:keys:{id}", rate = 2_000_000_000, per = "1s", wait = "none")]
async fn by_window(id: usize) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(
    key = "ours:buckets:{id}",
    rate = 2_000_000_000,
    per = "1s",
    algorithm = "token_bucket",
    wait = "none"
)]
async fn by_bucket(id: usize) -> Result<(), Rejection> {
    Ok(())
}

impl Ours {
    /// # Panics
    ///
    /// Panics if Redis does not decide, or the limit is none that can be.
    pub async fn new(limits: &Limits, limit: Limit) -> Self {
        let ours = if limit.keys == 1 {
            let quota = Quota::new(limit.rate.into(), limit.per).expect("a quota that can be");
            Self::Held(limits.limiter(&limit.names("ours")[0], quota))
        } else {
            assert_eq!(limit.name, "keys", "only this one has an annotated function");
            Self::Windows { keys: limit.keys }
        };
        ours.used().await
    }

    /// The same keys, each counted by a token bucket.
    ///
    /// # Panics
    ///
    /// Panics if Redis does not decide.
    pub async fn of_buckets(limit: Limit) -> Self {
        Self::Buckets { keys: limit.keys }.used().await
    }

    /// Limiters of which each was used once.
    async fn used(self) -> Self {
        for key in 0..self.keys() {
            self.decide(key).await.expect("Redis decides");
        }
        self
    }

    pub fn name(&self) -> &'static str {
        if matches!(self, Self::Buckets { .. }) { "ours_buckets" } else { "ours" }
    }
}

impl Decide for Ours {
    fn keys(&self) -> usize {
        match self {
            Self::Held(_) => 1,
            Self::Windows { keys } | Self::Buckets { keys } => *keys,
        }
    }

    async fn decide(&self, key: usize) -> Result<bool, ()> {
        let decision = match self {
            Self::Held(limiter) => {
                limiter.try_acquire(1).await.map(|decision| decision.is_degraded())
            }
            Self::Windows { .. } => by_window(key).await.map(|()| false),
            Self::Buckets { .. } => by_bucket(key).await.map(|()| false),
        };
        match decision {
            Ok(degraded) => (!degraded).then_some(true).ok_or(()),
            Err(rejection) if rejection.reason() == Reason::Limited => Ok(false),
            Err(_) => Err(()),
        }
    }
}
