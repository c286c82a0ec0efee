//! governor, which decides in the process and shares nothing.

use std::{num::NonZeroU32, time::Duration};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::Limit;
use crate::load::Decide;

/// One of its limiters, by whether there are keys.
pub enum Governed {
    Direct(DefaultDirectRateLimiter),
    Keyed { keys: usize, limiter: DefaultKeyedRateLimiter<usize> },
}

impl Governed {
    /// # Panics
    ///
    /// Panics on a rate of 0.
    pub fn new(limit: Limit) -> Self {
        // Above a permit a nanosecond it counts none, hence a rate that it never refuses here.
        let rate = NonZeroU32::new(limit.rate.min(1_000_000_000)).expect("a rate above 0");
        let every = limit.per / rate.get();
        let quota = Quota::with_period(every.max(Duration::from_nanos(1)))
            .expect("a period above 0")
            .allow_burst(rate);
        if limit.keys == 1 {
            return Self::Direct(RateLimiter::direct(quota));
        }
        let limiter = RateLimiter::keyed(quota);
        (0..limit.keys).for_each(|key| drop(limiter.check_key(&key)));
        Self::Keyed { keys: limit.keys, limiter }
    }
}

impl Decide for Governed {
    fn keys(&self) -> usize {
        match self {
            Self::Direct(_) => 1,
            Self::Keyed { keys, .. } => *keys,
        }
    }

    async fn decide(&self, key: usize) -> Result<bool, ()> {
        Ok(match self {
            Self::Direct(limiter) => limiter.check().is_ok(),
            Self::Keyed { limiter, .. } => limiter.check_key(&key).is_ok(),
        })
    }
}
