//! A clock that advances only on request.

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::sync::Notify;

use super::{LONGEST_MS, expiry_ms, whole_ms};

/// A clock that advances only on request, for tests without sleeps.
///
/// Clones share one time. It is at most 2^52 ms after 1970, in 140 000 years: the clock stops there.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Limits, Quota, test_util::ManualClock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let time = ManualClock::new();
/// let limits = Limits::builder().memory().clock(time.clone()).build().await?;
/// let limiter = limits.limiter("search", Quota::new(1, Duration::from_secs(1))?);
///
/// assert!(limiter.try_acquire(1).await.is_ok());
/// assert!(limiter.try_acquire(1).await.is_err());
/// time.advance(Duration::from_secs(1));
/// assert!(limiter.try_acquire(1).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Manual>);

struct Manual {
    now_ms: AtomicU64,
    moved: Notify,
}

impl ManualClock {
    /// Creates a clock that stands at 2023-11-14, 22:13:20 UTC (1 700 000 000 s).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use ratelimit_runtime::{Limits, Quota, test_util::ManualClock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder().memory().clock(ManualClock::new()).build().await?;
    /// let permit = limits.limiter("search", Quota::per_second(5)).try_acquire(1).await?;
    /// assert_eq!(permit.at(), UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::at(UNIX_EPOCH + Duration::from_secs(1_700_000_000))
    }

    /// Creates a clock that stands at this time, without parts of a millisecond. A time before 1970
    /// counts as 1970.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use ratelimit_runtime::{Limits, Quota, test_util::ManualClock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // 2027-01-31, 23:00 UTC.
    /// let time = ManualClock::at(UNIX_EPOCH + Duration::from_secs(1_801_436_400));
    /// let limits = Limits::builder().memory().clock(time).build().await?;
    /// let daily = Quota::new(20, Duration::from_secs(24 * 3600))?.fixed_window();
    /// let permit = limits.limiter("exports", daily).try_acquire(20).await?;
    /// assert_eq!(permit.reset_after(), Duration::from_secs(3600));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn at(time: SystemTime) -> Self {
        let now_ms = expiry_ms(time.duration_since(UNIX_EPOCH).unwrap_or_default());
        Self(Arc::new(Manual { now_ms: AtomicU64::new(now_ms), moved: Notify::new() }))
    }

    /// Advances the clock and wakes sleepers that are due. Parts of a millisecond are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Quota, test_util};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (limits, time) = test_util::limits();
    /// let search = limits.limiter("search", Quota::per_minute(1));
    /// search.try_acquire(1).await?;
    ///
    /// let (waited, ()) = tokio::join!(search.acquire(1), async { time.advance(Duration::from_secs(60)) });
    /// assert_eq!(waited?.remaining(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(&self, duration: Duration) {
        let on = |now_ms: u64| Some(now_ms.saturating_add(whole_ms(duration)).min(LONGEST_MS));
        let _ = self.0.now_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, on);
        self.0.moved.notify_waiters();
    }

    /// Moves the time back, as a corrected server clock does, but not beyond 1970. Parts of a millisecond are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_runtime::{Quota, test_util};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (limits, time) = test_util::limits();
    /// let search = limits.limiter("search", Quota::per_minute(2));
    /// search.try_acquire(2).await?;
    ///
    /// time.step_back(Duration::from_secs(3600));
    /// let rejection = search.try_acquire(1).await.unwrap_err();
    /// assert_eq!(rejection.retry_after(), Some(Duration::from_secs(60)));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "test-util")]
    pub fn step_back(&self, duration: Duration) {
        let back = |now_ms: u64| Some(now_ms.saturating_sub(whole_ms(duration)));
        let _ = self.0.now_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, back);
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.0.now_ms.load(Ordering::SeqCst)
    }

    pub(super) async fn sleep_until(&self, at_ms: u64) {
        loop {
            let mut moved = pin!(self.0.moved.notified());
            moved.as_mut().enable();
            if self.now_ms() >= at_ms {
                return;
            }
            moved.await;
        }
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now_ms()).finish()
    }
}
