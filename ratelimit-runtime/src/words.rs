//! The public enums for words of settings.
//!
//! Each enum mirrors one of the macro and the limits file. Within the workspace those are matched
//! exhaustively; a further word here is not a breaking change.

use std::{fmt, time::Duration};

use ratelimit_spec as spec;

/// Declares a public enum of plain words and its conversions, so that both sides stay complete.
macro_rules! words {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl fmt::Display for $name {
            /// Writes the word of the limits file.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.word().fmt(f)
            }
        }

        #[allow(dead_code, reason = "not every word goes both ways")]
        impl $name {
            pub(crate) fn of(word: spec::$name) -> Self {
                match word {
                    $(spec::$name::$variant => Self::$variant,)+
                }
            }

            pub(crate) fn word(self) -> spec::$name {
                match self {
                    $(Self::$variant => spec::$name::$variant,)+
                }
            }
        }
    };
}

words! {
    /// How permits are counted; see [`guide::algorithms`](crate::guide::algorithms).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Algorithm, Quota};
    ///
    /// # fn main() -> Result<(), ratelimit_runtime::QuotaError> {
    /// let quota: Quota = "5 per 1s, token bucket of 8".parse()?;
    /// assert_eq!(quota.algorithm(), Algorithm::TokenBucket);
    /// assert_eq!(quota.algorithm().to_string(), "token_bucket");
    /// # Ok(())
    /// # }
    /// ```
    Algorithm {
        /// At most the rate in any window.
        SlidingWindow,
        /// The rate in the long run, and up to a burst at once.
        TokenBucket,
        /// The rate in each window; windows follow each other since the Unix epoch, or are those of a
        /// calendar.
        FixedWindow,
        /// Evenly spaced permits.
        LeakyBucket,
    }
}

words! {
    /// The length of a calendar window.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{CalendarUnit, Quota};
    ///
    /// # fn main() -> Result<(), ratelimit_runtime::QuotaError> {
    /// let quota = Quota::calendar(10_000, CalendarUnit::Month, "Europe/Vienna")?;
    /// assert_eq!(quota.to_string(), "10000 per month (Europe/Vienna)");
    /// # Ok(())
    /// # }
    /// ```
    CalendarUnit {
        /// Begins with each full minute.
        Minute,
        /// Begins with each full hour of the clocks.
        Hour,
        /// Begins at midnight.
        Day,
        /// Begins on Monday.
        Week,
        /// Begins on the first.
        Month,
    }
}

words! {
    /// Which processes share one budget.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, Mode, Quota, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().build().await?;
    /// // Protects the disk of each machine, so the processes need not share it.
    /// let disk = Settings::new(Quota::per_minute(200)).mode(Mode::PerClient);
    /// assert_eq!(limits.limiter("disk", disk).try_acquire(1).await?.remaining(), 199);
    /// # Ok(())
    /// # }
    /// ```
    Mode {
        /// All processes together.
        Overall,
        /// Each process has the whole budget to itself.
        PerClient,
    }
}

words! {
    /// How calls are decided while the store is unavailable; see [`guide::outages`](crate::guide::outages).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "test-util")]
    /// use ratelimit_runtime::{OnStoreError, Quota, Settings, StoreErrorKind, test_util};
    ///
    /// # #[cfg(not(feature = "test-util"))]
    /// # fn main() {}
    /// # #[cfg(feature = "test-util")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (limits, _time) = test_util::limits();
    /// let search = Settings::new(Quota::per_minute(1)).on_store_error(OnStoreError::Allow);
    /// let search = limits.limiter("search", search);
    ///
    /// test_util::set_store_error(&limits, Some(StoreErrorKind::Unavailable));
    /// for _ in 0..10 {
    ///     assert!(search.try_acquire(1).await?.is_degraded());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    OnStoreError {
        /// This process counts by itself, with its share of the quota.
        Local,
        /// The call is admitted.
        Allow,
        /// The call is rejected.
        Reject,
    }
}

words! {
    /// The effect of a change of the configured quota on the state of a limiter; see
    /// [`guide::reconciliation`](crate::guide::reconciliation).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_runtime::{Limits, OnDrift, Quota, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().build().await?;
    /// let search = |rate| {
    ///     let settings = Settings::new(Quota::per_minute(rate)).on_drift(OnDrift::Carry);
    ///     limits.limiter("search", settings)
    /// };
    /// search(10).try_acquire(4).await?;
    /// assert_eq!(search(20).try_acquire(1).await?.remaining(), 15);
    /// # Ok(())
    /// # }
    /// ```
    OnDrift {
        /// The state is reset: the whole quota is free.
        Reset,
        /// Permits in use still count.
        Carry,
    }
}

/// How long a call may wait for its permits.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Quota, Settings, Wait};
///
/// let wait = Wait::UpTo(Duration::from_secs(2));
/// let search = Settings::new(Quota::per_second(5)).wait(wait);
/// assert_eq!(wait.to_string(), "2s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// Until the permits are free.
    Forever,
    /// Not at all.
    None,
    /// At most this long.
    UpTo(Duration),
}

impl Wait {
    pub(crate) fn word(self) -> spec::Wait {
        match self {
            Self::Forever => spec::Wait::Forever,
            Self::None => spec::Wait::None,
            Self::UpTo(longest) => spec::Wait::UpTo(longest),
        }
    }
}

impl fmt::Display for Wait {
    /// Writes the word of the limits file, or the duration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.word().fmt(f)
    }
}
