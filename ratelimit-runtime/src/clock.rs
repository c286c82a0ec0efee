//! The only place that reads time.
//!
//! Rules take `now` as an argument; stores and limiters ask a [`Clock`]. The Redis store does
//! not even do that: its scripts use the server's time.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Notify, time::Instant};

/// Where the embedded store and waiting callers get their time from.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Clock, Limits, ManualClock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let time = ManualClock::new();
/// let limits = Limits::builder().memory().clock(time.clone()).build().await?;
/// # let _: (Clock, Limits) = (time.into(), limits);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    System { anchor: Instant, epoch: Duration },
    Manual(ManualClock),
}

impl Clock {
    /// The system's time, read once and then advanced by the monotonic clock, so that a stepping
    /// wall clock changes nothing. It follows tokio's paused time in tests.
    #[must_use]
    pub fn system() -> Self {
        let epoch = wall_time().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Kind::System { anchor: instant(), epoch })
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        match &self.0 {
            Kind::System { anchor, epoch } => whole_ms(*epoch + anchor.elapsed()),
            Kind::Manual(manual) => manual.now_ms(),
        }
    }

    /// Sleeps for this long by this clock.
    pub(crate) async fn sleep(&self, duration: Duration) {
        match &self.0 {
            Kind::System { .. } => tokio::time::sleep(duration).await,
            Kind::Manual(manual) => manual.sleep(duration).await,
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl From<ManualClock> for Clock {
    fn from(manual: ManualClock) -> Self {
        Self(Kind::Manual(manual))
    }
}

/// A clock that stands still until it is told otherwise, for tests that must not sleep.
///
/// Clones share one time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_runtime::{Limits, ManualClock, Quota};
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
    /// A clock that stands at 2023-11-14, 22:13:20 UTC (1 700 000 000 s).
    #[must_use]
    pub fn new() -> Self {
        Self::at(UNIX_EPOCH + Duration::from_secs(1_700_000_000))
    }

    /// A clock that stands at this time, of which parts of a millisecond are dropped. Before 1970 is
    /// 1970.
    #[must_use]
    pub fn at(time: SystemTime) -> Self {
        let now_ms = whole_ms(time.duration_since(UNIX_EPOCH).unwrap_or_default());
        Self(Arc::new(Manual { now_ms: AtomicU64::new(now_ms), moved: Notify::new() }))
    }

    /// Moves the time forward and wakes whoever slept until then. Parts of a millisecond are
    /// dropped.
    pub fn advance(&self, duration: Duration) {
        self.0.now_ms.fetch_add(whole_ms(duration), Ordering::SeqCst);
        self.0.moved.notify_waiters();
    }

    /// Moves the time back, as a corrected server clock does. Parts of a millisecond are dropped.
    pub fn step_back(&self, duration: Duration) {
        self.0.now_ms.fetch_sub(whole_ms(duration), Ordering::SeqCst);
    }

    fn now_ms(&self) -> u64 {
        self.0.now_ms.load(Ordering::SeqCst)
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.now_ms() + whole_ms(duration);
        loop {
            let moved = self.0.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.now_ms() >= until {
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

/// The monotonic clock, for deadlines and ages.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads time")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads time")]
fn wall_time() -> SystemTime {
    SystemTime::now()
}

/// Whole milliseconds of a duration; more than fit are as many as fit.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000);
    seconds.saturating_add(duration.subsec_millis().into())
}
