//! Several limits on one key, and which of them can never be the one that rejects.

use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::conflict::{Conflict, requires_a_bucket};
use crate::duration::format_duration;
use crate::quota::{Quota, QuotaError, check_count};
use crate::rule::Rule;

/// One of several limits on one key, as it is written: its key may decide how it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Permits per window, at least 1.
    pub rate: u32,
    /// The window.
    pub per: Duration,
    /// The algorithm (that of the key by default).
    pub algorithm: Option<Algorithm>,
    /// The permits that a token bucket stores (the rate by default).
    pub burst: Option<u32>,
}

impl Limit {
    /// Creates a limit that uses the algorithm of its key.
    #[must_use]
    pub fn new(rate: u32, per: Duration) -> Self {
        Self { rate, per, algorithm: None, burst: None }
    }

    /// Returns the quota of this limit under a key with this algorithm.
    #[must_use]
    pub fn quota(&self, algorithm: Algorithm) -> Quota {
        let rule = self.algorithm.unwrap_or(algorithm).rule(self.burst.unwrap_or(self.rate));
        Quota { rate: self.rate.into(), per: self.per, rule }
    }
}

impl Quota {
    fn per_ms(&self) -> u128 {
        self.per.as_millis().max(1)
    }

    /// Returns the most permits it grants within `ms` consecutive milliseconds.
    fn most_within(&self, ms: u128) -> u128 {
        let (rate, per) = (u128::from(self.rate), self.per_ms());
        match self.rule {
            Rule::SlidingWindow => rate * ms.div_ceil(per),
            // The end of one window, whole windows, and the start of another.
            Rule::FixedWindow { .. } => rate * (1 + (ms - 1).div_ceil(per)),
            Rule::TokenBucket { .. } | Rule::WarmingBucket { .. } | Rule::LeakyBucket => {
                self.most_at_once() + (ms - 1) * rate / per
            }
        }
    }

    /// Returns the most permits it grants beyond its steady rate.
    fn most_at_once(&self) -> u128 {
        match self.rule {
            Rule::FixedWindow { .. } => 2 * u128::from(self.rate),
            Rule::SlidingWindow
            | Rule::TokenBucket { .. }
            | Rule::WarmingBucket { .. }
            | Rule::LeakyBucket => self.capacity().into(),
        }
    }

    /// Returns whether its steady rate is at most the other's.
    fn is_as_slow_as(&self, other: &Self) -> bool {
        u128::from(self.rate) * other.per_ms() <= u128::from(other.rate) * self.per_ms()
    }

    /// Returns the most permits that the other limit admits in one window of this one.
    fn most_under(&self, other: &Self) -> u128 {
        let (own, others) = (self.per_ms(), other.per_ms());
        let both_fixed =
            matches!((self.rule, other.rule), (Rule::FixedWindow { .. }, Rule::FixedWindow { .. }));
        // Windows that divide each other begin together.
        if both_fixed && (own.is_multiple_of(others) || others.is_multiple_of(own)) {
            return u128::from(other.rate) * own.div_ceil(others);
        }
        other.most_within(own)
    }

    /// Returns whether it never rejects what another limit grants; `false` also if this cannot be decided simply.
    fn never_refuses_under(&self, other: &Self) -> bool {
        match self.rule {
            Rule::SlidingWindow | Rule::FixedWindow { .. } => {
                self.most_under(other) <= self.rate.into()
            }
            Rule::TokenBucket { .. } => {
                other.most_at_once() <= self.capacity().into() && other.is_as_slow_as(self)
            }
            Rule::WarmingBucket { .. } => false,
            Rule::LeakyBucket => {
                other.rule == Rule::LeakyBucket
                    && other.rate <= self.rate
                    && other.is_as_slow_as(self)
            }
        }
    }

    fn unreachable_under(&self, other: &Self) -> Option<String> {
        if !self.never_refuses_under(other) {
            return None;
        }
        let windows = matches!(self.rule, Rule::SlidingWindow | Rule::FixedWindow { .. });
        let most = self.most_under(other);
        let advice = if windows && most > 1 {
            format!("write at most {}, or remove it", most - 1)
        } else {
            "remove it".to_owned()
        };
        // With the algorithms: the rates and windows can be equal.
        Some(format!(
            "limit `{self}` is unreachable, because `{other}` never admits more; {advice}"
        ))
    }
}

/// Returns the limits in the order in which they are counted and reported, regardless of their
/// order in the source: by window, then by algorithm.
#[must_use]
pub fn in_order(limits: impl IntoIterator<Item = Quota>) -> Vec<Quota> {
    let mut limits: Vec<Quota> = limits.into_iter().collect();
    limits.sort_by_key(|limit| (limit.per, limit.rule.algorithm() as u8, limit.rate));
    limits
}

/// Orders quotas that are to apply together.
///
/// # Errors
///
/// Returns an error if there are none or more than [`MAX_LIMITS`](crate::MAX_LIMITS), or one of them cannot apply beside
/// the others.
pub fn together(limits: impl IntoIterator<Item = Quota>) -> Result<Vec<Quota>, QuotaError> {
    let limits: Vec<Quota> = limits.into_iter().collect();
    check_count(limits.len())?;
    if limits.len() == 1 {
        return Ok(limits);
    }
    let is_alone =
        |quota: &&Quota| quota.rule.calendar().is_some() || quota.rule.warm_up().is_some();
    if let Some(alone) = limits.iter().find(is_alone) {
        return Err(QuotaError::alone(*alone));
    }
    match conflicts(&limits, |_| None).into_iter().next() {
        Some(conflict) => Err(conflict.into()),
        None => Ok(in_order(limits)),
    }
}

/// Finds the problems of limits that are to apply together: a number that cannot be counted, two
/// limits with one window and one algorithm, a limit that can never be the one that rejects. There
/// is at most one problem for each limit.
#[must_use]
pub(crate) fn check_limits(written: &[Limit], algorithm: Algorithm) -> Vec<Conflict> {
    let limits: Vec<Quota> = written.iter().map(|limit| limit.quota(algorithm)).collect();
    conflicts(&limits, |index| uncountable(&limits[index], written[index].burst))
}

fn conflicts(limits: &[Quota], own: impl Fn(usize) -> Option<String>) -> Vec<Conflict> {
    let mut found: Vec<Conflict> = Vec::new();
    for (index, limit) in limits.iter().enumerate().rev() {
        let others = (0..limits.len()).filter(|other| {
            *other != index && found.iter().all(|known| known.limit != Some(*other))
        });
        let message = own(index)
            .or_else(|| duplicate(limit, &limits[..index]))
            .or_else(|| others.filter_map(|n| limit.unreachable_under(&limits[n])).next());
        found.extend(message.map(|message| Conflict::of_limit(index, message)));
    }
    found.reverse();
    found
}

fn uncountable(limit: &Quota, burst: Option<u32>) -> Option<String> {
    if burst.is_some() && limit.rule.burst().is_none() {
        return Some(requires_a_bucket("burst", limit.rule.algorithm()));
    }
    limit.rule.check(limit.rate, limit.per).err().map(|error| error.to_string())
}

/// Limits with the same window and algorithm would share one counter.
fn duplicate(limit: &Quota, before: &[Quota]) -> Option<String> {
    let algorithm = limit.rule.algorithm();
    let same = |other: &&Quota| other.per == limit.per && other.rule.algorithm() == algorithm;
    before.iter().find(same).map(|other| {
        let per = format_duration(limit.per);
        let other = other.in_short();
        format!(
            "duplicate `{algorithm}` with window `{per}`, also used by `{other}`; remove one, or write another window"
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
            problems.iter().filter_map(|problem| problem.limit).collect()
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
        let problem =
            |limits: &[Limit]| check_limits(limits, Algorithm::SlidingWindow)[0].to_string();
        assert_eq!(
            problem(&[limit(10, S), limit(100_000, H)]),
            "limit `100000 per 1h` is unreachable, because `10 per 1s` never admits more; write at most \
             35999, or remove it"
        );
        assert_eq!(
            problem(&[limit(1, S), limit(1, H)]),
            "limit `1 per 1s` is unreachable, because `1 per 1h` never admits more; remove it"
        );
        assert_eq!(
            problem(&[bucket(5, S, 5), limit(5, S)]),
            "limit `5 per 1s, token bucket of 5` is unreachable, because `5 per 1s` never admits more; remove it"
        );
        assert_eq!(
            problem(&[limit(10, S), limit(20, S)]),
            "duplicate `sliding_window` with window `1s`, also used by `10 per 1s`; remove one, or write \
             another window"
        );
    }

    #[test]
    fn the_order_is_that_of_the_windows() {
        let written = [limit(1_000, H), bucket(5, S, 20), limit(10, S)];
        let quotas = written.map(|limit| limit.quota(Algorithm::SlidingWindow));
        let ordered = in_order(quotas);
        assert_eq!(ordered, in_order(quotas.into_iter().rev()));
        let shown: Vec<String> = ordered.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10 per 1s", "5 per 1s, token bucket of 20", "1000 per 1h"]);
    }
}
