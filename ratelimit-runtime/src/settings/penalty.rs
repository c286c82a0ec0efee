//! A penalty in code.

use std::time::Duration;

use ratelimit_spec as spec;

use crate::clock::whole_ms;

/// A block of keys that are rejected repeatedly: `penalty: { after: 3, block: 5m, up_to: 1d }` of
/// the limits file, for [`Settings::penalty`](crate::Settings::penalty). [The
/// guide](crate::guide::penalties) describes what counts.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Limits, Penalty, Quota, Reason, Settings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let limits = Limits::builder().memory().build().await?;
/// let ten_minutes = Penalty::new(1, Duration::from_secs(600));
/// let login = Settings::new(Quota::per_minute(1)).penalty(ten_minutes);
/// let [ada, grace] = ["login:ada", "login:grace"].map(|name| limits.limiter(name, login.clone()));
///
/// ada.try_acquire(1).await?;
/// assert_eq!(ada.try_acquire(1).await.unwrap_err().reason(), Reason::Blocked);
/// assert!(grace.try_acquire(1).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Penalty(spec::Penalty);

impl Penalty {
    /// Blocks a key for this long, in whole milliseconds and at most 366 days, once it was rejected
    /// in `after` consecutive windows, at least one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(feature = "test-util")] {
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Penalty, Quota, Reason, Settings, test_util};
    ///
    /// let (limits, time) = test_util::limits();
    /// let penalty = Penalty::new(2, Duration::from_secs(3600));
    /// let login = limits.limiter("login:ada", Settings::new(Quota::per_minute(1)).penalty(penalty));
    ///
    /// for reason in [Reason::Limited, Reason::Blocked] {
    ///     login.try_acquire(1).await?;
    ///     assert_eq!(login.try_acquire(1).await.unwrap_err().reason(), reason);
    ///     time.advance(Duration::from_secs(60));
    /// }
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(after: u32, block: Duration) -> Self {
        let block = whole(block).clamp(spec::MIN_PER, spec::MAX_PER);
        Self(spec::Penalty { after: after.max(1), block, up_to: block })
    }

    /// Doubles the block each further time, up to this length: from that of the first block to 366
    /// days. A block is remembered for this long after it is over.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # #[cfg(feature = "test-util")] {
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Penalty, Quota, Settings, test_util};
    ///
    /// let (limits, time) = test_util::limits();
    /// let penalty = Penalty::new(1, Duration::from_secs(300)).up_to(Duration::from_secs(3600));
    /// let login = limits.limiter("login:ada", Settings::new(Quota::per_minute(1)).penalty(penalty));
    ///
    /// for seconds in [300, 600, 1200, 2400, 3600, 3600] {
    ///     login.try_acquire(1).await?;
    ///     let block = login.try_acquire(1).await.unwrap_err().retry_after();
    ///     assert_eq!(block, Some(Duration::from_secs(seconds)));
    ///     time.advance(Duration::from_secs(seconds));
    /// }
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub fn up_to(self, up_to: Duration) -> Self {
        let up_to = whole(up_to).clamp(self.0.block, spec::MAX_PER);
        Self(spec::Penalty { up_to, ..self.0 })
    }

    pub(super) fn word(self) -> spec::Penalty {
        self.0
    }
}

fn whole(duration: Duration) -> Duration {
    Duration::from_millis(whole_ms(duration))
}
