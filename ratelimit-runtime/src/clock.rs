//! The only place that reads time.
//!
//! Algorithms take `now` as an argument; stores and limiters read a [`Clock`]. The Redis store does
//! not need one: its scripts use the server's time.
#![cfg_attr(
    not(feature = "test-util"),
    allow(unreachable_pub, reason = "only tests reach it from outside")
)]

mod counter;
#[cfg(any(test, feature = "test-util"))]
mod manual;

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    runtime::{Builder, Handle, RuntimeFlavor},
    task::JoinHandle,
    time::Instant,
};

#[cfg(any(test, feature = "test-util"))]
pub use self::manual::ManualClock;
use crate::engine::{Engine, Runtime};

/// The source of time of the embedded store and of waiting callers.
#[derive(Clone, Debug)]
pub struct Clock {
    /// How many milliseconds the processor's counter is behind the Unix epoch; `None` if the source is read instead, because
    /// a test can pause or move its time.
    behind: Option<u64>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    System(System),
    #[cfg(any(test, feature = "test-util"))]
    Manual(ManualClock),
}

#[derive(Clone, Debug)]
struct System {
    anchor: Instant,
    epoch: Duration,
    /// Whether it follows tokio's paused time. Redis does not.
    pauses: bool,
    /// The engine whose timers wake callers without a runtime.
    engine: Arc<Engine>,
}

/// A reading of the processor's counter.
#[derive(Clone, Copy)]
pub(crate) struct Counted(u64);

impl Counted {
    /// Reads the counter, if it is ready.
    #[inline(always)]
    pub(crate) fn now() -> Option<Self> {
        counter::counted_millis().map(Self)
    }
}

impl Clock {
    /// The system's time, read once and then advanced by the monotonic clock, so that a stepping
    /// wall clock changes nothing. It follows tokio's paused time in tests.
    #[cfg(any(test, feature = "test-util"))]
    #[must_use]
    pub fn system() -> Self {
        Self::with_engine(Arc::default(), true)
    }

    /// The system's time, with this engine's timers for callers without a runtime.
    pub(crate) fn with_engine(engine: Arc<Engine>, pauses: bool) -> Self {
        let epoch = wall_time().duration_since(UNIX_EPOCH).unwrap_or_default();
        let anchor = if pauses { instant_of_runtime() } else { instant() };
        let behind = (!pauses || !tokio_can_pause()).then(|| {
            counter::start();
            whole_ms(epoch.saturating_sub(counter::since_base(anchor)))
        });
        Self { behind, source: Source::System(System { anchor, epoch, pauses, engine }) }
    }

    /// Returns the milliseconds since the Unix epoch.
    #[inline(always)]
    pub(crate) fn now_ms(&self) -> u64 {
        match self.behind {
            Some(behind) => counter::millis().wrapping_add(behind),
            None => self.source.now_ms(),
        }
    }

    /// Returns the milliseconds since the Unix epoch at a reading of the counter, if this clock follows it.
    #[inline(always)]
    pub(crate) fn at(&self, Counted(ms): Counted) -> Option<u64> {
        self.behind.map(|behind| ms.wrapping_add(behind))
    }

    /// Sleeps for `duration` on this clock.
    pub(crate) async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now_ms().saturating_add(whole_ms(duration))).await;
    }

    /// Sleeps until this time. A test may have moved its clock since the time was computed.
    pub(crate) async fn sleep_until(&self, at_ms: u64) {
        match &self.source {
            Source::System(system) => {
                let left = Duration::from_millis(at_ms.saturating_sub(self.now_ms()));
                let here = system.runtime_here();
                sleep_where(left, here, || system.now(), || system.runtime_here()).await;
            }
            #[cfg(any(test, feature = "test-util"))]
            Source::Manual(manual) => manual.sleep_until(at_ms).await,
        }
    }

    /// Sleeps for `duration` in a task of the engine, without keeping the engine.
    pub(crate) fn sleep_in_engine(&self, duration: Duration) -> impl Future<Output = ()> + use<> {
        #[cfg(any(test, feature = "test-util"))]
        let manual = match &self.source {
            Source::Manual(manual) => Some(manual.clone()),
            Source::System(_) => None,
        };
        async move {
            #[cfg(any(test, feature = "test-util"))]
            if let Some(manual) = manual {
                return manual
                    .sleep_until(manual.now_ms().saturating_add(whole_ms(duration)))
                    .await;
            }
            tokio::time::sleep(duration).await;
        }
    }
}

impl Source {
    #[cold]
    fn now_ms(&self) -> u64 {
        match self {
            Self::System(system) => system.now_ms(),
            #[cfg(any(test, feature = "test-util"))]
            Self::Manual(manual) => manual.now_ms(),
        }
    }
}

impl System {
    fn now_ms(&self) -> u64 {
        whole_ms(self.epoch + self.now().saturating_duration_since(self.anchor))
    }

    fn now(&self) -> Instant {
        if self.pauses { instant_of_runtime() } else { instant() }
    }

    fn runtime_here(&self) -> Runtime {
        if self.pauses {
            Handle::try_current().map_or_else(|_| self.engine.runtime(), Runtime::from)
        } else {
            runtime_here(&self.engine)
        }
    }
}

#[cfg(any(test, feature = "test-util"))]
impl From<ManualClock> for Clock {
    fn from(manual: ManualClock) -> Self {
        Self { behind: None, source: Source::Manual(manual) }
    }
}

/// The monotonic clock, for deadlines and ages. It continues while tokio's time is paused.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads time")]
pub(crate) fn instant() -> Instant {
    Instant::from_std(std::time::Instant::now())
}

/// The monotonic clock of the runtime that polls the caller, which tests may pause.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads time")]
fn instant_of_runtime() -> Instant {
    Instant::now()
}

/// Returns whether this program's tokio was compiled with `test-util`, without which its time cannot be paused.
fn tokio_can_pause() -> bool {
    struct Never;

    /// Provides a method that tokio lacks without `test-util`; if tokio has it, that one is called.
    trait Pause {
        #[allow(dead_code, reason = "tokio's own is used where it exists")]
        fn start_paused(&mut self, _: bool) -> Never;
    }

    impl Pause for Builder {
        fn start_paused(&mut self, _: bool) -> Never {
            Never
        }
    }

    trait Answer {
        const CAN_PAUSE: bool;
    }

    impl Answer for Never {
        const CAN_PAUSE: bool = false;
    }

    impl Answer for &mut Builder {
        const CAN_PAUSE: bool = true;
    }

    fn answer<T: Answer>(_: T) -> bool {
        T::CAN_PAUSE
    }

    answer(Builder::new_current_thread().start_paused(false))
}

/// Returns the runtime whose timers and tasks serve the caller: the one that polls it, or the
/// engine's if there is none. A paused runtime fires every timeout while it waits for a socket, so
/// the engine replaces it too.
pub(crate) fn runtime_here(engine: &Engine) -> Runtime {
    match Handle::try_current() {
        Ok(runtime) if !is_paused(&runtime) => runtime.into(),
        _ => engine.runtime(),
    }
}

/// Returns whether tokio's time stands still in this runtime while real time passes.
fn is_paused(runtime: &Handle) -> bool {
    if matches!(runtime.runtime_flavor(), RuntimeFlavor::MultiThread) {
        return false;
    }
    let (before, stands, started) = (instant(), instant_of_runtime(), instant());
    if before < stands && stands < started {
        return false;
    }
    // The runtime was paused once, or the clock has microsecond resolution.
    while instant() == started {}
    instant_of_runtime() == stands
}

/// Sleeps in real time, with the timers of the runtime that polls it.
pub(crate) async fn sleep(engine: &Engine, duration: Duration) {
    sleep_where(duration, runtime_here(engine), instant, || runtime_here(engine)).await;
}

/// Sleeps with this runtime's timers, until another runtime polls it or this one ends.
async fn sleep_where(
    duration: Duration,
    mut runtime: Runtime,
    now: impl Fn() -> Instant,
    here: impl Fn() -> Runtime,
) {
    const FOREVER: Duration = Duration::from_secs(30 * 365 * 86_400);
    let until = now() + duration.min(FOREVER);
    loop {
        let left = until.saturating_duration_since(now());
        let is_within = Handle::try_current().is_ok_and(|current| current.id() == runtime.id());
        let elapsed = if is_within {
            sleep_within(left, &runtime, &here).await
        } else {
            sleep_beside(left, &runtime).await
        };
        if elapsed {
            return;
        }
        runtime = here();
    }
}

/// Sleeps with the timers of the polling runtime; returns `false` if another one polls it now.
async fn sleep_within(left: Duration, runtime: &Handle, here: &impl Fn() -> Runtime) -> bool {
    let mut timer = pin!(tokio::time::sleep(left));
    let mut is_new = true;
    let elapsed = poll_fn(|cx| {
        // A timer panics if its runtime has ended, so it is only polled from within that runtime.
        if !std::mem::take(&mut is_new) && here().id() != runtime.id() {
            return Poll::Ready(false);
        }
        timer.as_mut().poll(cx).map(|()| true)
    });
    elapsed.await
}

/// Sleeps in a task of another runtime; returns `false` if that ended before.
async fn sleep_beside(left: Duration, runtime: &Handle) -> bool {
    struct Aborted(JoinHandle<()>);

    impl Drop for Aborted {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    let mut task = Aborted(runtime.spawn(async move { tokio::time::sleep(left).await }));
    (&mut task.0).await.is_ok()
}

/// The error of a future that did not finish in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elapsed {
    /// Whether the runtime was delayed meanwhile, so that the store may not be at fault.
    pub(crate) stalled: bool,
}

/// A timer that fires this late was delayed along with everything else in its runtime.
pub(crate) const LATE: Duration = Duration::from_millis(3);

/// Waits for a future, but no longer than `limit` in real time. A delayed runtime gets a moment to
/// read what arrived meanwhile.
pub(crate) async fn timeout<F: Future>(
    engine: &Engine,
    limit: Duration,
    future: F,
) -> Result<F::Output, Elapsed> {
    timeout_on(runtime_here(engine), engine, limit, future).await
}

/// Like `timeout`, in a runtime that is known to poll the caller.
pub(crate) async fn timeout_on<F: Future>(
    runtime: Runtime,
    engine: &Engine,
    limit: Duration,
    future: F,
) -> Result<F::Output, Elapsed> {
    let until = instant() + limit;
    let mut future = pin!(future);
    tokio::select! {
        biased;
        output = &mut future => return Ok(output),
        () = sleep_where(limit, runtime, instant, || runtime_here(engine)) => {}
    }
    let late = instant().saturating_duration_since(until);
    if late >= LATE {
        tokio::select! {
            biased;
            output = &mut future => return Ok(output),
            () = sleep(engine, LATE) => {}
        }
    }
    Err(Elapsed { stalled: late > LATE.max(limit / 8) })
}

/// The time of day, by this machine.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads time")]
pub(crate) fn wall_time() -> SystemTime {
    SystemTime::now()
}

/// Converts a duration to whole milliseconds, saturating at the maximum.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000);
    seconds.saturating_add(duration.subsec_millis().into())
}

/// 140 000 years in milliseconds. Such a time and a few such durations can be added without an overflow.
const LONGEST_MS: u64 = 1 << 52;

/// Converts the time after which something expires to whole milliseconds, limited to 140 000 years.
pub(crate) fn expiry_ms(after: Duration) -> u64 {
    whole_ms(after).min(LONGEST_MS)
}
