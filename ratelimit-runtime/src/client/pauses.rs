//! The pauses of limiters, and the order of the requests that sit them out.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    pin::pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

use tokio::sync::Notify;

use crate::clock::{Clock, whole_ms};

/// The maximum pause that one response can cause, even if the upstream requests more.
const LONGEST: Duration = Duration::from_secs(86_400);
/// How long after a pause a request waits for those that came earlier, whose futures may no longer be polled.
const GRACE: Duration = Duration::from_millis(100);

/// Pauses by limiter name.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    all: Mutex<HashMap<Box<str>, Paused>>,
    begun: Notify,
    arrivals: AtomicU64,
}

#[derive(Debug, Default)]
struct Paused {
    /// In milliseconds of the limiter's clock.
    until_ms: u64,
    /// The requests that have not gone on since, by arrival.
    waiting: BTreeMap<u64, Option<Waker>>,
}

impl Pauses {
    /// Pauses a limiter. If it is paused already, the later end applies.
    pub(super) fn pause(&self, name: &str, clock: &Clock, length: Duration) {
        let now_ms = clock.now_ms();
        let until_ms = now_ms.saturating_add(whole_ms(length.min(LONGEST)));
        let mut all = self.lock();
        if !all.contains_key(name) && all.len() == all.capacity() {
            all.retain(|_, paused| paused.until_ms > now_ms || !paused.waiting.is_empty());
        }
        let paused = all.entry(name.into()).or_default();
        paused.until_ms = paused.until_ms.max(until_ms);
        drop(all);
        self.begun.notify_waiters();
    }

    /// Returns the rest of a limiter's pause.
    pub(super) fn left(&self, name: &str, clock: &Clock) -> Option<Duration> {
        let left_ms = self.until_ms(name).saturating_sub(clock.now_ms());
        (left_ms > 0).then(|| Duration::from_millis(left_ms))
    }

    fn until_ms(&self, name: &str) -> u64 {
        self.lock().get(name).map_or(0, |paused| paused.until_ms)
    }

    /// Returns the position of a request that arrives now.
    pub(super) fn turn<'a>(&'a self, name: &'a str, clock: &'a Clock) -> Turn<'a> {
        let number = self.arrivals.fetch_add(1, Ordering::Relaxed);
        Turn { pauses: self, name, clock, number }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Paused>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The position of a request among those of its limiter.
pub(super) struct Turn<'a> {
    pauses: &'a Pauses,
    name: &'a str,
    clock: &'a Clock,
    number: u64,
}

impl Turn<'_> {
    /// Returns the rest of the pause.
    pub(super) fn left(&self) -> Option<Duration> {
        self.pauses.left(self.name, self.clock)
    }

    /// Waits for the end of a pause, or until it is extended. Requests that come later go on later.
    pub(super) async fn sit_out(&self, pause: Duration) {
        if let Some(paused) = self.pauses.lock().get_mut(self.name) {
            paused.waiting.entry(self.number).or_default();
        }
        let end_ms = self.clock.now_ms().saturating_add(whole_ms(pause));
        tokio::select! {
            () = self.clock.sleep_until(end_ms) => {}
            () = self.paused_beyond(end_ms) => {}
        }
    }

    /// Waits until a pause begins.
    pub(super) async fn paused(&self) {
        self.paused_beyond(0).await;
    }

    /// Waits for a pause that ends later than now, and later than this.
    async fn paused_beyond(&self, end_ms: u64) {
        loop {
            let mut begun = pin!(self.pauses.begun.notified());
            begun.as_mut().enable();
            if self.pauses.until_ms(self.name) > end_ms.max(self.clock.now_ms()) {
                return;
            }
            begun.await;
        }
    }

    /// Waits for the requests that came earlier and sat a pause out, too, until they have [gone on](Self::go_on), or
    /// until the [grace](GRACE) is over.
    pub(super) async fn in_order(&self) {
        let first = poll_fn(|context| match self.is_first(context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        let end_ms = self.pauses.until_ms(self.name).saturating_add(whole_ms(GRACE));
        tokio::select! {
            biased;
            () = first => {}
            () = self.clock.sleep_until(end_ms) => {}
        }
    }

    fn is_first(&self, waker: &Waker) -> bool {
        let mut all = self.pauses.lock();
        let Some(Paused { waiting, .. }) = all.get_mut(self.name) else { return true };
        let waits = waiting.range(..self.number).next().is_some();
        if waits {
            waiting.insert(self.number, Some(waker.clone()));
        }
        !waits
    }

    /// Lets the next request go on.
    pub(super) fn go_on(&self) {
        let mut all = self.pauses.lock();
        let Some(Paused { waiting, .. }) = all.get_mut(self.name) else { return };
        waiting.remove(&self.number);
        let next = waiting.first_entry().and_then(|mut next| next.get_mut().take());
        drop(all);
        next.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_end_and_are_forgotten() {
        let (time, pauses) = (ManualClock::new(), Pauses::default());
        let clock = Clock::from(time.clone());
        pauses.pause("a", &clock, 3 * SECOND);
        pauses.pause("a", &clock, SECOND);
        assert_eq!(pauses.left("a", &clock), Some(3 * SECOND), "the later end counts");
        assert_eq!(pauses.left("b", &clock), None);
        pauses.pause("b", &clock, Duration::MAX);
        assert_eq!(pauses.left("b", &clock), Some(LONGEST));
        time.advance(LONGEST);
        assert_eq!(pauses.left("b", &clock), None);
        for n in 0..10_000 {
            pauses.pause(&n.to_string(), &clock, SECOND);
            time.advance(SECOND);
        }
        assert!(pauses.lock().len() < 100, "{} pauses are over", pauses.lock().len());
    }
}
