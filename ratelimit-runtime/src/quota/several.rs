//! Several quotas that all hold.

use std::{fmt, slice, sync::Arc};

use ratelimit_spec::{Algorithm, Limit, MAX_LIMITS, check_limits, in_order};

use super::{Quota, QuotaError, Wrong};

/// One quota, or [several](crate::guide::several_limits) that all hold.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::Quota;
///
/// let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
/// let quotas = Quota::new(10, second)?.and(Quota::new(1000, hour)?)?;
/// assert_eq!(quotas.to_string(), "10 per 1s and 1000 per 1h");
///
/// let error = Quota::new(10, second)?.and(Quota::new(10, hour)?).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`10 per 1s` is never reached, since `10 per 1h` never allows more; write at most 9, or remove it"
/// );
/// # Ok::<(), ratelimit_runtime::QuotaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotas(Held);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    One(Quota),
    /// In the order in which they are counted and told.
    Several(Arc<[Quota]>),
}

impl Quotas {
    /// Adds a quota, which holds beside the others. The order does not matter.
    ///
    /// # Errors
    ///
    /// When there are 8 already, when two have the same window and algorithm, when one can never be
    /// the one that refuses, or when one goes by a calendar or warms up.
    pub fn and(self, other: Quota) -> Result<Self, QuotaError> {
        let cannot = |quota: &&Quota| quota.calendar.is_some() || quota.warms_up_in().is_some();
        if let Some(alone) = self.as_slice().iter().chain([&other]).find(cannot) {
            return Err(QuotaError(Wrong::Alone(*alone)));
        }
        let mut limits: Vec<Limit> = self.as_slice().iter().map(Quota::limit).collect();
        if limits.len() == MAX_LIMITS {
            return Err(QuotaError(Wrong::TooMany));
        }
        limits.push(other.limit());
        if let Some(problem) = check_limits(&limits, Algorithm::default()).into_iter().next() {
            return Err(QuotaError(Wrong::Together(problem)));
        }
        let quotas = in_order(&limits, Algorithm::default()).into_iter().map(Quota::of);
        Ok(Self(Held::Several(quotas.collect())))
    }

    /// All of them, the shortest window first.
    #[must_use]
    pub fn as_slice(&self) -> &[Quota] {
        match &self.0 {
            Held::One(quota) => slice::from_ref(quota),
            Held::Several(quotas) => quotas,
        }
    }
}

impl From<Quota> for Quotas {
    fn from(quota: Quota) -> Self {
        Self(Held::One(quota))
    }
}

impl From<Arc<[Quota]>> for Quotas {
    fn from(quotas: Arc<[Quota]>) -> Self {
        match &*quotas {
            [quota] => Self::from(*quota),
            _ => Self(Held::Several(quotas)),
        }
    }
}

impl fmt::Display for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, quota) in self.as_slice().iter().enumerate() {
            let separator = if n == 0 { "" } else { " and " };
            write!(f, "{separator}{quota}")?;
        }
        Ok(())
    }
}

impl Quota {
    /// Both quotas, as one that grants what both grant.
    ///
    /// # Errors
    ///
    /// When both have the same window and algorithm, when one can never be the one that refuses, or
    /// when one goes by a calendar or warms up.
    pub fn and(self, other: Self) -> Result<Quotas, QuotaError> {
        Quotas::from(self).and(other)
    }

    /// The most permits one request can get.
    pub(crate) fn capacity(&self) -> u64 {
        self.burst().unwrap_or(self.rate)
    }

    /// A limit whose rule is known.
    pub(crate) fn of(limit: Limit) -> Self {
        let algorithm = limit.algorithm.unwrap_or_default();
        let per_ms = crate::clock::whole_ms(limit.per);
        Self::stored(limit.rate.into(), per_ms, (algorithm, limit.burst.unwrap_or(0)), None)
    }

    pub(crate) fn limit(&self) -> Limit {
        // A rate beyond the range came from a store; it is told of as the greatest.
        let rate = u32::try_from(self.rate).unwrap_or(u32::MAX);
        Limit {
            algorithm: Some(self.algorithm),
            burst: self.burst_u32(),
            ..Limit::new(rate, self.per)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_spec::CalendarUnit;

    use super::*;

    #[test]
    fn what_a_limit_in_a_list_cannot_say_is_refused() {
        let hour = Quota::new(100, Duration::from_secs(3600)).unwrap();
        let warm = Quota::new(2, Duration::from_secs(1)).unwrap();
        let warm = warm.warm_up(Duration::from_secs(4)).unwrap();
        let day = Quota::calendar(1000, CalendarUnit::Day, "Europe/Vienna").unwrap();
        for (one, other, name) in [
            (hour, warm, "2 per 1s, token bucket that warms up in 4s"),
            (day, hour, "1000 per day (Europe/Vienna)"),
        ] {
            let error = one.and(other).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{name}` cannot be one of several limits")),
                "{error}"
            );
        }
    }
}
