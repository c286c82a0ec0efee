//! Several limits on one key, and which of them can never be the one that refuses.

use std::fmt;
use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::duration::format_duration;

/// The most limits on one key.
pub const MAX_LIMITS: usize = 8;

/// One of several limits on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Permits per window, at least 1.
    pub rate: u32,
    /// The window.
    pub per: Duration,
    /// The rule by which permits are counted; without it, the one of the key.
    pub algorithm: Option<Algorithm>,
    /// What a token bucket holds.
    pub burst: Option<u32>,
}

/// A limit that cannot stand beside the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitProblem {
    /// Which of the limits, counted from 0.
    pub index: usize,
    message: String,
}

impl fmt::Display for LimitProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LimitProblem {}

impl Limit {
    /// A limit by the rule of its key.
    #[must_use]
    pub fn new(rate: u32, per: Duration) -> Self {
        Self { rate, per, algorithm: None, burst: None }
    }

    /// The same limit with nothing left to be decided by its key.
    #[must_use]
    pub fn counted_by(self, algorithm: Algorithm) -> Self {
        let algorithm = self.algorithm.unwrap_or(algorithm);
        let is_bucket = algorithm == Algorithm::TokenBucket;
        let burst = is_bucket.then(|| self.burst.unwrap_or(self.rate));
        Self { algorithm: Some(algorithm), burst, ..self }
    }

    /// The most permits one request can get.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.rule().capacity(self.rate, self.burst)
    }

    fn rule(&self) -> Algorithm {
        self.algorithm.unwrap_or_default()
    }

    fn per_ms(&self) -> u128 {
        self.per.as_millis().max(1)
    }

    /// The most permits it grants within so many milliseconds in a row.
    fn most_within(&self, ms: u128) -> u128 {
        let (rate, per) = (u128::from(self.rate), self.per_ms());
        match self.rule() {
            Algorithm::SlidingWindow => rate * ms.div_ceil(per),
            // The end of one window, whole ones, and the start of another.
            Algorithm::FixedWindow => rate * (1 + (ms - 1).div_ceil(per)),
            _ => self.most_at_once() + (ms - 1) * rate / per,
        }
    }

    /// The most permits it grants beyond those of its steady rate.
    fn most_at_once(&self) -> u128 {
        match self.rule() {
            Algorithm::FixedWindow => 2 * u128::from(self.rate),
            _ => self.capacity().into(),
        }
    }

    /// Whether its steady rate is at most the other's.
    fn is_as_slow_as(&self, other: &Self) -> bool {
        u128::from(self.rate) * other.per_ms() <= u128::from(other.rate) * self.per_ms()
    }

    /// The most permits that the other one leaves for one window of this one.
    fn most_under(&self, other: &Self) -> u128 {
        let (own, others) = (self.per_ms(), other.per_ms());
        let both_fixed =
            (self.rule(), other.rule()) == (Algorithm::FixedWindow, Algorithm::FixedWindow);
        // Windows that divide each other begin together.
        if both_fixed && (own.is_multiple_of(others) || others.is_multiple_of(own)) {
            return u128::from(other.rate) * own.div_ceil(others);
        }
        other.most_within(own)
    }

    /// Whether it never refuses what another one grants. Where it may, if only for an instant, or
    /// where that is hard to tell, the answer is no.
    fn never_refuses_under(&self, other: &Self) -> bool {
        match self.rule() {
            Algorithm::SlidingWindow | Algorithm::FixedWindow => {
                self.most_under(other) <= self.rate.into()
            }
            Algorithm::TokenBucket => {
                other.most_at_once() <= self.capacity().into() && other.is_as_slow_as(self)
            }
            Algorithm::LeakyBucket => {
                other.rule() == Algorithm::LeakyBucket
                    && other.rate <= self.rate
                    && other.is_as_slow_as(self)
            }
        }
    }

    fn unreachable_under(&self, other: &Self) -> Option<String> {
        if !self.never_refuses_under(other) {
            return None;
        }
        let windows = matches!(self.rule(), Algorithm::SlidingWindow | Algorithm::FixedWindow);
        let most = self.most_under(other);
        let advice = if windows && most > 1 {
            format!("write at most {}, or remove it", most - 1)
        } else {
            "remove it".to_owned()
        };
        Some(format!("`{self}` is never reached, since `{other}` never allows more; {advice}"))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.rate, format_duration(self.per))
    }
}

/// The limits in the order in which they are counted and told, whatever order they were written in:
/// by window, then by rule. Each has its rule; `algorithm` is that of those which name none.
#[must_use]
pub fn in_order(limits: &[Limit], algorithm: Algorithm) -> Vec<Limit> {
    let mut limits = in_full(limits, algorithm);
    limits.sort_by_key(|limit| (limit.per, limit.rule() as u8, limit.rate));
    limits
}

/// What is wrong with limits that are to hold together: a number that cannot be counted, two limits
/// with one window and one rule, a limit that can never be the one that refuses. At most one problem
/// for each limit.
#[must_use]
pub fn check_limits(limits: &[Limit], algorithm: Algorithm) -> Vec<LimitProblem> {
    let (written, limits) = (limits, in_full(limits, algorithm));
    let mut problems: Vec<LimitProblem> = Vec::new();
    for (index, limit) in limits.iter().enumerate().rev() {
        let others = (0..limits.len())
            .filter(|other| *other != index && problems.iter().all(|known| known.index != *other));
        let message = uncountable(limit, written[index].burst)
            .or_else(|| duplicate(limit, &limits[..index]))
            .or_else(|| others.filter_map(|n| limit.unreachable_under(&limits[n])).next());
        problems.extend(message.map(|message| LimitProblem { index, message }));
    }
    problems.reverse();
    problems
}

fn in_full(limits: &[Limit], algorithm: Algorithm) -> Vec<Limit> {
    limits.iter().map(|limit| limit.counted_by(algorithm)).collect()
}

fn uncountable(limit: &Limit, burst: Option<u32>) -> Option<String> {
    let rule = limit.rule();
    if burst.is_some() && rule != Algorithm::TokenBucket {
        return Some(format!(
            "`burst` is what a token bucket holds, and `{limit}` is a `{rule}`; write `algorithm: \
             token_bucket`, or remove `burst`"
        ));
    }
    limit.rule().check(limit.rate, limit.per, burst).err().map(|error| error.to_string())
}

/// Two such limits would be counted in one place.
fn duplicate(limit: &Limit, before: &[Limit]) -> Option<String> {
    let same = |other: &&Limit| other.per == limit.per && other.rule() == limit.rule();
    before.iter().find(same).map(|other| {
        let (per, rule) = (format_duration(limit.per), limit.rule());
        format!(
            "there is a `{rule}` of `{per}` already, `{other}`; keep one of them, or write another window"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000;
    const M: u64 = 60 * S;
    const H: u64 = 60 * M;

    fn limit(rate: u32, per_ms: u64) -> Limit {
        Limit::new(rate, Duration::from_millis(per_ms))
    }

    fn by(rate: u32, per_ms: u64, algorithm: Algorithm) -> Limit {
        Limit { algorithm: Some(algorithm), ..limit(rate, per_ms) }
    }

    fn bucket(rate: u32, per_ms: u64, burst: u32) -> Limit {
        Limit { burst: Some(burst), ..by(rate, per_ms, Algorithm::TokenBucket) }
    }

    /// The limits at fault, in both orders.
    fn at_fault(limits: &[Limit]) -> Vec<usize> {
        let found = |limits: &[Limit]| -> Vec<usize> {
            let problems = check_limits(limits, Algorithm::SlidingWindow);
            problems.iter().map(|problem| problem.index).collect()
        };
        let backwards: Vec<Limit> = limits.iter().rev().copied().collect();
        assert_eq!(found(&backwards).len(), found(limits).len(), "{limits:?}");
        found(limits)
    }

    #[test]
    fn a_window_is_unreachable_where_another_allows_no_more() {
        for (limits, expected) in [
            (vec![limit(10, S), limit(1_000, H)], vec![]),
            (vec![limit(1, S), limit(2, M)], vec![]),
            (vec![limit(10, S), limit(10, H)], vec![0]),
            (vec![limit(10, S), limit(11, H)], vec![]),
            (vec![limit(10, S), limit(35_999, H)], vec![]),
            (vec![limit(10, S), limit(36_000, H)], vec![1]),
            (vec![limit(10, S), limit(20, 1_001)], vec![1]),
            (vec![limit(10, S), limit(19, 1_001)], vec![]),
            (vec![limit(10, S), limit(10, S)], vec![1]),
            (vec![limit(10, S), limit(20, S)], vec![1]),
            (vec![limit(1, S), limit(60, M), limit(3_600, H)], vec![1, 2]),
        ] {
            assert_eq!(at_fault(&limits), expected, "{limits:?}");
        }
    }

    #[test]
    fn another_rule_is_unreachable_only_where_that_is_sure() {
        use Algorithm::{FixedWindow, LeakyBucket};
        for (limits, expected) in [
            (vec![limit(10, S), by(1_000, H, FixedWindow), bucket(5, S, 20)], vec![]),
            (vec![limit(10, S), by(36_000, H, FixedWindow)], vec![1]),
            (vec![by(10, S, FixedWindow), limit(20, S)], vec![1]),
            (vec![by(10, S, FixedWindow), limit(19, S)], vec![]),
            (vec![by(10, S, FixedWindow), by(600, M, FixedWindow)], vec![1]),
            (vec![by(10, S, FixedWindow), by(10, M, FixedWindow)], vec![0]),
            (vec![by(10, S, FixedWindow), by(21, 1_500, FixedWindow)], vec![]),
            (vec![by(10, S, FixedWindow), by(30, 1_500, FixedWindow)], vec![1]),
            (vec![limit(10, S), bucket(10, S, 10)], vec![1]),
            (vec![limit(10, S), bucket(10, S, 9)], vec![]),
            (vec![limit(10, S), bucket(9, S, 100)], vec![]),
            (vec![bucket(1, S, 10), limit(69, M)], vec![1]),
            (vec![bucket(1, S, 10), limit(68, M)], vec![]),
            (vec![by(10, S, LeakyBucket), by(60, M, LeakyBucket)], vec![]),
            (vec![by(10, S, LeakyBucket), by(600, M, LeakyBucket)], vec![1]),
            (vec![limit(1, H), by(60, M, LeakyBucket)], vec![]),
        ] {
            assert_eq!(at_fault(&limits), expected, "{limits:?}");
        }
    }

    #[test]
    fn a_problem_says_what_to_write() {
        let told = |limits: &[Limit]| check_limits(limits, Algorithm::SlidingWindow)[0].to_string();
        assert_eq!(
            told(&[limit(10, S), limit(100_000, H)]),
            "`100000 per 1h` is never reached, since `10 per 1s` never allows more; write at most \
             35999, or remove it"
        );
        assert_eq!(
            told(&[limit(1, S), limit(1, H)]),
            "`1 per 1s` is never reached, since `1 per 1h` never allows more; remove it"
        );
        assert_eq!(
            told(&[limit(10, S), limit(20, S)]),
            "there is a `sliding_window` of `1s` already, `10 per 1s`; keep one of them, or write \
             another window"
        );
    }

    #[test]
    fn the_order_is_that_of_the_windows() {
        let written = [limit(1_000, H), bucket(5, S, 20), limit(10, S)];
        let mut backwards = written;
        backwards.reverse();
        let ordered = in_order(&written, Algorithm::SlidingWindow);
        assert_eq!(ordered, in_order(&backwards, Algorithm::SlidingWindow));
        let told: Vec<String> = ordered.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["10 per 1s", "5 per 1s", "1000 per 1h"]);
    }
}
