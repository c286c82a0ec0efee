//! The words for how permits are counted.

use crate::rule::Rule;
use crate::words::{WordError, words};

/// The word for the [`Rule`] by which permits are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

impl Algorithm {
    /// Returns the rule of this word. A token bucket stores `burst` permits; the other rules ignore it.
    #[must_use]
    pub const fn rule(self, burst: u32) -> Rule {
        match self {
            Self::SlidingWindow => Rule::SlidingWindow,
            Self::TokenBucket => Rule::TokenBucket { burst },
            Self::FixedWindow => Rule::FixedWindow { calendar: None },
            Self::LeakyBucket => Rule::LeakyBucket,
        }
    }
}

impl Rule {
    /// Returns the word for this rule in an attribute and a limits file.
    #[must_use]
    pub fn algorithm(self) -> Algorithm {
        match self {
            Self::SlidingWindow => Algorithm::SlidingWindow,
            Self::TokenBucket { .. } | Self::WarmingBucket { .. } => Algorithm::TokenBucket,
            Self::FixedWindow { .. } => Algorithm::FixedWindow,
            Self::LeakyBucket => Algorithm::LeakyBucket,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_means_its_value_and_back() {
        for word in Algorithm::WORDS {
            let algorithm: Algorithm = word.parse().unwrap();
            assert_eq!((algorithm.as_str(), algorithm.rule(1).algorithm()), (*word, algorithm));
        }
        assert_eq!(Algorithm::default(), Algorithm::SlidingWindow);
        let error = "tokenbucket".parse::<Algorithm>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown `algorithm` value `tokenbucket`; did you mean `token_bucket`?"
        );
    }
}
