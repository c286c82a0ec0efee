//! How permits are counted, with the numbers that only one algorithm has.

use std::time::Duration;

use crate::calendar::Calendar;
use crate::conflict::Conflict;
use crate::duration::{MAX_PER, MIN_PER, format_duration};

/// How permits are counted. A match on it has no wildcard inside this workspace, so that a new rule
/// does not compile until every place handles it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rule {
    /// At most `rate` in any window of length `per`.
    #[default]
    SlidingWindow,
    /// `rate` in `per` in the long run.
    TokenBucket {
        /// The most permits it stores, and so the most it grants at once.
        burst: u32,
    },
    /// A token bucket that grants a third of its rate after a pause, and more with each permit.
    WarmingBucket {
        /// How long the pause is, and how long the bucket takes to reach its full rate.
        warm_up: Duration,
    },
    /// `rate` in each window.
    FixedWindow {
        /// The clocks by which windows begin; without it, windows follow each other since the Unix
        /// epoch.
        calendar: Option<Calendar>,
    },
    /// One permit every `per / rate`.
    LeakyBucket,
}

/// The most that a bucket can hold, in ticks: a millisecond has as many as the rate. Twice as many are
/// still exact in the floating-point numbers of Redis scripts.
const MAX_TICKS: u64 = 1 << 52;

/// The most that a warming bucket can store, in the same ticks. Redis scripts divide its square by half
/// of it in floating-point numbers, 13 bits at a time.
const MAX_WARM_UP_TICKS: u64 = 1 << 40;

impl Rule {
    /// Returns the most permits that one request can get at this rate.
    #[must_use]
    pub fn capacity(self, rate: u64) -> u64 {
        match self {
            Self::TokenBucket { burst } if rate > 0 => burst.into(),
            Self::TokenBucket { .. }
            | Self::SlidingWindow
            | Self::WarmingBucket { .. }
            | Self::FixedWindow { .. }
            | Self::LeakyBucket => rate,
        }
    }

    /// Returns the most permits that are free at once for several requests; 0 if permits are spaced, one request after
    /// the other.
    #[must_use]
    pub fn saved(self, rate: u64) -> u64 {
        match self {
            Self::LeakyBucket | Self::WarmingBucket { .. } => 0,
            Self::SlidingWindow | Self::TokenBucket { .. } | Self::FixedWindow { .. } => {
                self.capacity(rate)
            }
        }
    }

    /// Returns the permits that a token bucket stores.
    #[must_use]
    pub fn burst(self) -> Option<u32> {
        match self {
            Self::TokenBucket { burst } => Some(burst),
            Self::SlidingWindow
            | Self::WarmingBucket { .. }
            | Self::FixedWindow { .. }
            | Self::LeakyBucket => None,
        }
    }

    /// Returns the same rule with another burst, if it has one.
    #[must_use]
    pub fn map_burst(self, change: impl FnOnce(u32) -> u32) -> Self {
        match self {
            Self::TokenBucket { burst } => Self::TokenBucket { burst: change(burst) },
            Self::SlidingWindow
            | Self::WarmingBucket { .. }
            | Self::FixedWindow { .. }
            | Self::LeakyBucket => self,
        }
    }

    /// Returns how long a token bucket takes to warm up.
    #[must_use]
    pub fn warm_up(self) -> Option<Duration> {
        match self {
            Self::WarmingBucket { warm_up } => Some(warm_up),
            Self::SlidingWindow
            | Self::TokenBucket { .. }
            | Self::FixedWindow { .. }
            | Self::LeakyBucket => None,
        }
    }

    /// Returns the calendar of fixed windows.
    #[must_use]
    pub fn calendar(self) -> Option<Calendar> {
        match self {
            Self::FixedWindow { calendar } => calendar,
            Self::SlidingWindow
            | Self::TokenBucket { .. }
            | Self::WarmingBucket { .. }
            | Self::LeakyBucket => None,
        }
    }

    /// Checks that this rule can count such numbers exactly.
    ///
    /// # Errors
    ///
    /// Returns an error if a bucket is too large, or takes too long to warm up.
    pub fn check(self, rate: u64, per: Duration) -> Result<(), Conflict> {
        let settings: &[_] = match self {
            Self::SlidingWindow | Self::FixedWindow { .. } => return Ok(()),
            Self::WarmingBucket { warm_up } => {
                check_warm_up(rate, warm_up)?;
                &["rate", "per"]
            }
            Self::TokenBucket { burst } if u64::from(burst) != rate => &["burst", "per"],
            Self::TokenBucket { .. } | Self::LeakyBucket => &["rate", "per", "algorithm"],
        };
        let number = self.capacity(rate);
        let most = u128::from(MAX_TICKS) / per.as_millis().max(1);
        if u128::from(number) <= most {
            return Ok(());
        }
        let (name, per) = (settings[0], format_duration(per));
        let message = format!(
            "a `{name}` of {number} in `{per}` is too large to be counted exactly; write at most {most}, or a \
             shorter `per`"
        );
        Err(Conflict::new(settings, message))
    }
}

/// Checks that a token bucket of this rate can take this long to warm up.
fn check_warm_up(rate: u64, warm_up: Duration) -> Result<(), Conflict> {
    if warm_up < MIN_PER || warm_up > MAX_PER || !warm_up.subsec_nanos().is_multiple_of(1_000_000) {
        let (least, most) = (format_duration(MIN_PER), format_duration(MAX_PER));
        let message = format!(
            "warm-up {warm_up:?} is not supported; use whole milliseconds from {least} to {most}"
        );
        return Err(Conflict::new(&["warm_up"], message));
    }
    let most = MAX_WARM_UP_TICKS / rate.max(1);
    if warm_up.as_millis() > u128::from(most) {
        let (warm_up, most) =
            (format_duration(warm_up), format_duration(Duration::from_millis(most)));
        let message = format!(
            "a `warm_up` of {warm_up} at a `rate` of {rate} is too long to be counted exactly; write at most \
             `{most}`, or a smaller `rate`"
        );
        return Err(Conflict::new(&["warm_up", "rate"], message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const YEAR: Duration = Duration::from_secs(366 * 86_400);

    fn warming(millis: u64) -> Rule {
        Rule::WarmingBucket { warm_up: Duration::from_millis(millis) }
    }

    #[test]
    fn a_bucket_holds_its_burst_and_the_others_their_rate() {
        assert_eq!(Rule::TokenBucket { burst: 30 }.capacity(10), 30);
        assert_eq!(
            Rule::TokenBucket { burst: 30 }.capacity(0),
            0,
            "a rate of 0 rejects every call"
        );
        assert_eq!(warming(1000).capacity(10), 10);
        assert_eq!(Rule::LeakyBucket.capacity(10), 10);
    }

    #[test]
    fn a_bucket_is_refused_beyond_what_can_be_counted_exactly() {
        let check =
            |rule: Rule, rate, per| rule.check(rate, per).map_err(|error| error.to_string());
        assert_eq!(
            check(Rule::TokenBucket { burst: 2_147_483_647 }, 2_147_483_647, SECOND),
            Ok(())
        );
        assert_eq!(check(Rule::TokenBucket { burst: 142_418 }, 2_147_483_647, YEAR), Ok(()));
        assert_eq!(
            check(Rule::TokenBucket { burst: 142_419 }, 5, YEAR).unwrap_err(),
            "a `burst` of 142419 in `366d` is too large to be counted exactly; write at most \
             142418, or a shorter `per`"
        );
        let leaky = check(Rule::LeakyBucket, 142_419, YEAR).unwrap_err();
        assert!(leaky.starts_with("a `rate`"), "{leaky}");
        assert_eq!(check(Rule::FixedWindow { calendar: None }, 2_147_483_647, YEAR), Ok(()));
    }

    #[test]
    fn a_warm_up_that_cannot_be_counted_says_what_can() {
        let check = |rule: Rule, rate| rule.check(rate, SECOND).map_err(|error| error.to_string());
        assert_eq!(check(warming(3_600_000), 100), Ok(()));
        assert_eq!(check(warming(1 << 20), 1 << 20), Ok(()));
        assert_eq!(
            check(warming((1 << 20) + 1), 1 << 20).unwrap_err(),
            "a `warm_up` of 17m28s577ms at a `rate` of 1048576 is too long to be counted exactly; \
             write at most `17m28s576ms`, or a smaller `rate`"
        );
        let odd = Rule::WarmingBucket { warm_up: Duration::from_micros(1500) };
        assert_eq!(
            check(odd, 1).unwrap_err(),
            "warm-up 1.5ms is not supported; use whole milliseconds from 1ms to 366d"
        );
    }
}
