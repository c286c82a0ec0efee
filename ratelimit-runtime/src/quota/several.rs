//! Several quotas that apply together.

use std::{fmt, ops::Deref, slice, sync::Arc};

use ratelimit_spec::together;

use super::{Quota, QuotaError};

/// One quota, or [several](crate::guide::several_limits) that apply together. As a slice, the shortest
/// window comes first.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Quota, Quotas};
///
/// let quotas = Quotas::new([Quota::per_hour(1000), Quota::per_second(10)])?;
/// assert_eq!(quotas.to_string(), "10 per 1s and 1000 per 1h");
/// assert_eq!(quotas[0], Quota::per_second(10));
///
/// let error = Quotas::new([Quota::per_second(10), Quota::per_hour(10)]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "limit `10 per 1s` is unreachable, because `10 per 1h` never admits more; write at most 9, or remove it"
/// );
/// # Ok::<(), ratelimit_runtime::QuotaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quotas(Held);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Held {
    One(Quota),
    /// In the order in which they are counted and reported.
    Several(Arc<[Quota]>),
}

impl Quotas {
    /// Combines quotas; every call needs permits from all of them. Their order does not matter.
    ///
    /// # Errors
    ///
    /// Returns an error if there are none or more than 8, if two have the same window and algorithm, if
    /// one can never be the one that rejects, or if one of several has a calendar window or warms up.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Quota, Quotas};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let (minute, hour) = (Quota::per_minute(30), Quota::per_hour(100));
    /// let quotas = Quotas::new([hour, minute])?;
    /// assert_eq!(quotas, Quotas::new([minute, hour])?);
    ///
    /// let messages = limits.limiter("messages:ada", quotas);
    /// assert_eq!(messages.available_permits().await?, 30);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(all: impl IntoIterator<Item = Quota>) -> Result<Self, QuotaError> {
        let together = together(all.into_iter().map(|quota| quota.0)).map_err(QuotaError)?;
        Ok(Self::stored(together.into_iter().map(Quota::of).collect()))
    }

    /// Returns the active quotas as they are stored; there is at least one.
    pub(crate) fn stored(quotas: Vec<Quota>) -> Self {
        match quotas[..] {
            [quota] => Self(Held::One(quota)),
            _ => Self(Held::Several(quotas.into())),
        }
    }
}

impl Deref for Quotas {
    type Target = [Quota];

    fn deref(&self) -> &[Quota] {
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

impl fmt::Display for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, quota) in self.iter().enumerate() {
            let separator = if n == 0 { "" } else { " and " };
            write!(f, "{separator}{quota}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::CalendarUnit;

    #[test]
    fn a_quota_that_cannot_be_one_of_several_is_refused() {
        let hour = Quota::per_hour(100);
        let warm = Quota::per_second(2).warming_bucket(Duration::from_secs(4)).unwrap();
        let day = Quota::calendar(1000, CalendarUnit::Day, "Europe/Vienna").unwrap();
        for (quotas, expected) in [
            (vec![], "`limits` has 0 entries; write 1 to 8"),
            (vec![hour; 9], "`limits` has 9 entries; write 1 to 8"),
            (
                vec![hour, warm],
                "`2 per 1s, token bucket that warms up in 4s` cannot be combined with other limits; use \
                 a quota without a calendar window or warm-up",
            ),
            (
                vec![day, hour],
                "`1000 per day (Europe/Vienna)` cannot be combined with other limits; use a quota \
                 without a calendar window or warm-up",
            ),
        ] {
            assert_eq!(Quotas::new(quotas).unwrap_err().to_string(), expected);
        }
        assert_eq!(&*Quotas::new([day]).unwrap(), [day]);
    }
}
