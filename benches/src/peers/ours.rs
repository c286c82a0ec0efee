//! This project, as a program uses it.

use std::time::Duration;

use ratelimit_runtime::{Limiter, Limits, Quota, Reason, Rejection, SetupError, rate_limit};

use super::{Decide, Limit};

/// Far beyond what a saturated loop makes a call wait, so that no call is decided without Redis.
const DEADLINE: Duration = Duration::from_secs(30);

/// Makes our limits those of this process.
///
/// # Errors
///
/// What keeps them from that.
pub async fn install(url: &str) -> Result<Limits, SetupError> {
    let yaml = "limiters:\n  \"ours:per_client:0\": { mode: per_client }\n";
    Limits::builder().redis(url).deadline(DEADLINE).limits_yaml(yaml).install().await
}

/// A limiter that is held, or an annotated function where there are many.
pub enum Ours {
    Held(Limiter),
    Annotated { keys: usize },
}

#[rate_limit(key = "ours:keys:{id}", rate = 2_000_000_000, per = "1s", wait = "none")]
async fn annotated(id: usize) -> Result<(), Rejection> {
    Ok(())
}

impl Ours {
    /// # Panics
    ///
    /// Panics when Redis does not decide, or the limit is none that can be.
    pub async fn new(limits: &Limits, limit: Limit) -> Self {
        let ours = if limit.keys == 1 {
            let quota = Quota::new(limit.rate.into(), limit.per).expect("a quota that can be");
            Self::Held(limits.limiter(&limit.names("ours")[0], quota))
        } else {
            assert_eq!(limit.name, "keys", "only this one has an annotated function");
            Self::Annotated { keys: limit.keys }
        };
        for key in 0..limit.keys {
            ours.decide(key).await.expect("Redis decides");
        }
        ours
    }
}

impl Decide for Ours {
    fn keys(&self) -> usize {
        match self {
            Self::Held(_) => 1,
            Self::Annotated { keys } => *keys,
        }
    }

    async fn decide(&self, key: usize) -> Result<bool, ()> {
        let decision = match self {
            Self::Held(limiter) => {
                limiter.try_acquire(1).await.map(|decision| decision.is_degraded())
            }
            Self::Annotated { .. } => annotated(key).await.map(|()| false),
        };
        match decision {
            Ok(degraded) => (!degraded).then_some(true).ok_or(()),
            Err(rejection) if rejection.reason() == Reason::Limited => Ok(false),
            Err(_) => Err(()),
        }
    }
}
