//! How permits are counted, and which numbers can be counted that way.

use std::fmt;
use std::time::Duration;

use crate::duration::format_duration;
use crate::words::{WordError, words};

/// The rule by which permits are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// `sliding_window`: at most `rate` in any window of length `per`.
    #[default]
    SlidingWindow,
    /// `token_bucket`: `rate` in `per` in the long run, and up to `burst` at once.
    TokenBucket,
    /// `fixed_window`: `rate` in each window; windows follow each other since the Unix epoch.
    FixedWindow,
    /// `leaky_bucket`: one every `per / rate`, evenly spaced.
    LeakyBucket,
}

words!(
    Algorithm, "algorithm",
    "sliding_window" => SlidingWindow,
    "token_bucket" => TokenBucket,
    "fixed_window" => FixedWindow,
    "leaky_bucket" => LeakyBucket
);

/// A full bucket, in parts of a millisecond as many as its rate. Twice as many are still whole in
/// the floating-point numbers of Redis' scripts.
const MAX_TICKS: u64 = 1 << 52;

impl Algorithm {
    /// The most permits one request can get; `burst` is read for a token bucket alone.
    #[must_use]
    pub fn capacity(self, rate: u32, burst: Option<u32>) -> u32 {
        match (self, burst) {
            (Self::TokenBucket, Some(burst)) if rate > 0 => burst,
            _ => rate,
        }
    }

    /// Whether these numbers can be counted.
    ///
    /// # Errors
    ///
    /// When a bucket is too large to be counted exactly.
    pub fn check(self, rate: u32, per: Duration, burst: Option<u32>) -> Result<(), TooLarge> {
        let name = match (self, burst) {
            (Self::TokenBucket, Some(_)) => "burst",
            (Self::TokenBucket | Self::LeakyBucket, _) => "rate",
            _ => return Ok(()),
        };
        let number = self.capacity(rate, burst);
        let most = u128::from(MAX_TICKS) / per.as_millis().max(1);
        if u128::from(number) <= most {
            return Ok(());
        }
        Err(TooLarge { name, number, per, most })
    }
}

/// A bucket too large to be counted exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    name: &'static str,
    number: u32,
    per: Duration,
    most: u128,
}

impl TooLarge {
    /// The setting that is too large: `rate` or `burst`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, number, per, most } = self;
        let per = format_duration(*per);
        write!(
            f,
            "a `{name}` of {number} in `{per}` is too large to be counted exactly; write at most \
             {most}, or a shorter `per`"
        )
    }
}

impl std::error::Error for TooLarge {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_means_its_value_and_back() {
        for word in Algorithm::WORDS {
            assert_eq!(word.parse::<Algorithm>().unwrap().as_str(), *word);
        }
        assert_eq!(Algorithm::default(), Algorithm::SlidingWindow);
        let error = "tokenbucket".parse::<Algorithm>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown algorithm `tokenbucket`; did you mean `token_bucket`?"
        );
    }

    #[test]
    fn a_bucket_holds_its_burst_and_the_others_their_rate() {
        assert_eq!(Algorithm::TokenBucket.capacity(10, Some(30)), 30);
        assert_eq!(Algorithm::TokenBucket.capacity(10, None), 10);
        assert_eq!(Algorithm::TokenBucket.capacity(0, Some(30)), 0, "a rate of 0 admits nobody");
        assert_eq!(Algorithm::LeakyBucket.capacity(10, Some(30)), 10);
    }

    #[test]
    fn a_bucket_is_refused_beyond_what_can_be_counted_exactly() {
        let second = Duration::from_secs(1);
        let year = Duration::from_secs(366 * 86_400);
        let check = |algorithm: Algorithm, rate, per, burst| {
            algorithm.check(rate, per, burst).map_err(|error| error.to_string())
        };
        assert_eq!(check(Algorithm::TokenBucket, 2_147_483_647, second, None), Ok(()));
        assert_eq!(check(Algorithm::TokenBucket, 2_147_483_647, year, Some(142_418)), Ok(()));
        assert_eq!(
            check(Algorithm::TokenBucket, 5, year, Some(142_419)).unwrap_err(),
            "a `burst` of 142419 in `366d` is too large to be counted exactly; write at most \
             142418, or a shorter `per`"
        );
        assert!(
            check(Algorithm::LeakyBucket, 142_419, year, None).unwrap_err().starts_with("a `rate`")
        );
        assert_eq!(check(Algorithm::FixedWindow, 2_147_483_647, year, None), Ok(()));
    }
}
