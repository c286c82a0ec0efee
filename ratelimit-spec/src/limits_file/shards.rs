//! Splitting one very hot limiter, and which limiters can be split.

use std::fmt;

use crate::algorithm::Algorithm;
use crate::settings::Settings;
use crate::words::Mode;

/// The most parts of one limiter. Each costs a call to the store when all of them are used up.
pub const MAX_SHARDS: u32 = 256;

/// What one of `shards` parts gets of a number that all of them add up to. Those with a lower
/// `index` get what cannot be divided.
///
/// # Examples
///
/// ```
/// use ratelimit_spec::shard_of;
///
/// assert_eq!([0, 1, 2].map(|index| shard_of(11, 3, index)), [4, 4, 3]);
/// ```
#[must_use]
pub fn shard_of(number: u32, shards: u32, index: u32) -> u32 {
    let shards = shards.max(1);
    number / shards + u32::from(index < number % shards)
}

/// Whether a limiter with these settings can be split; what is not known is absent.
///
/// # Errors
///
/// When a part would be without permits, or would not count as the whole does.
pub fn check_shards(settings: &Settings) -> Result<(), ShardsError> {
    let Settings { mode, algorithm, rate, burst, warm_up, limits, .. } = settings;
    let (mode, algorithm, rate, burst) = (*mode, *algorithm, *rate, *burst);
    let shards = settings.shards.unwrap_or(1);
    if shards <= 1 {
        return Ok(());
    }
    if limits.is_some() {
        return Err(ShardsError(Wrong::Several));
    }
    if mode == Some(Mode::PerClient) {
        return Err(ShardsError(Wrong::PerClient));
    }
    if warm_up.is_some() && algorithm == Some(Algorithm::TokenBucket) {
        return Err(ShardsError(Wrong::WarmUp));
    }
    let burst = burst.filter(|_| algorithm == Some(Algorithm::TokenBucket));
    match (algorithm, rate, burst) {
        (Some(Algorithm::LeakyBucket), ..) => Err(ShardsError(Wrong::LeakyBucket)),
        (_, Some(rate @ 1..), _) if rate < shards => {
            Err(ShardsError(Wrong::TooMany { shards, number: rate, name: "rate" }))
        }
        (.., Some(burst)) if burst < shards => {
            Err(ShardsError(Wrong::TooMany { shards, number: burst, name: "burst" }))
        }
        _ => Ok(()),
    }
}

/// A limiter that cannot be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardsError(Wrong);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    Several,
    PerClient,
    LeakyBucket,
    WarmUp,
    TooMany { shards: u32, number: u32, name: &'static str },
}

impl fmt::Display for ShardsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Wrong::Several => f.write_str(
                "several limits on one key are decided together, on one server; remove `shards`, or give \
                 the limiter one `rate` and `per`",
            ),
            Wrong::PerClient => f.write_str(
                "a `per_client` limiter is counted in each process, which leaves nothing to split; remove `shards`",
            ),
            Wrong::LeakyBucket => f.write_str(
                "a leaky bucket spaces its permits evenly, which its parts cannot; remove `shards`, or choose \
                 another `algorithm`",
            ),
            Wrong::WarmUp => f.write_str(
                "a bucket that warms up hands out one permit after the other, which its parts cannot; remove \
                 `shards`, or `warm_up`",
            ),
            Wrong::TooMany { shards, number, name } => write!(
                f,
                "`shards: {shards}` leaves a part without permits; write at most {number}, which is the `{name}`"
            ),
        }
    }
}

impl std::error::Error for ShardsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_whole() {
        for (number, shards) in [(1, 1), (10, 3), (7, 7), (2_147_483_647, 256)] {
            let parts = (0..shards).map(|index| u64::from(shard_of(number, shards, index)));
            assert_eq!(parts.sum::<u64>(), number.into());
        }
    }

    #[test]
    fn what_cannot_be_split_says_why() {
        let check = |shards, mode, algorithm, rate, burst| {
            let shards = Some(shards);
            let settings = Settings { shards, mode, algorithm, rate, burst, ..Settings::default() };
            check_shards(&settings).map_err(|error| error.to_string())
        };
        let (window, bucket) = (Some(Algorithm::SlidingWindow), Some(Algorithm::TokenBucket));
        assert_eq!(check(8, None, None, None, None), Ok(()));
        assert_eq!(check(8, Some(Mode::Overall), window, Some(8), Some(2)), Ok(()));
        assert_eq!(check(8, None, window, Some(0), None), Ok(()), "nobody gets in either way");
        assert_eq!(check(1, Some(Mode::PerClient), None, Some(1), None), Ok(()));
        for (problem, start) in [
            (check(2, Some(Mode::PerClient), None, None, None), "a `per_client` limiter"),
            (check(2, None, Some(Algorithm::LeakyBucket), None, None), "a leaky bucket"),
            (
                check(8, None, window, Some(7), None),
                "`shards: 8` leaves a part without permits; write at most 7",
            ),
            (
                check(8, None, bucket, Some(9), Some(6)),
                "`shards: 8` leaves a part without permits; write at most 6",
            ),
        ] {
            assert!(problem.clone().unwrap_err().starts_with(start), "{problem:?}");
        }
        let warm_up = Some(std::time::Duration::from_secs(4));
        let settings =
            Settings { shards: Some(2), algorithm: bucket, warm_up, ..Settings::default() };
        let problem = check_shards(&settings).unwrap_err().to_string();
        assert!(problem.starts_with("a bucket that warms up"), "{problem}");
    }
}
