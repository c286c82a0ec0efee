//! The ends of pauses, by limiter.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::clock::{Clock, whole_ms};

/// The maximum pause that one response can cause, even if the upstream requests more.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The ends of pauses by limiter name, in milliseconds of the limiter's clock.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<HashMap<Box<str>, u64>>);

impl Pauses {
    /// Pauses a limiter. If it is paused already, the later end applies.
    pub(super) fn pause(&self, name: &str, clock: &Clock, length: Duration) {
        let now_ms = clock.now_ms();
        let until_ms = now_ms.saturating_add(whole_ms(length.min(LONGEST)));
        let mut all = self.lock();
        if let Some(known) = all.get_mut(name) {
            *known = until_ms.max(*known);
            return;
        }
        if all.len() == all.capacity() {
            all.retain(|_, until_ms| *until_ms > now_ms);
        }
        all.insert(name.into(), until_ms);
    }

    /// Returns the rest of a limiter's pause.
    pub(super) fn left(&self, name: &str, clock: &Clock) -> Option<Duration> {
        let until_ms = *self.lock().get(name)?;
        let left_ms = until_ms.saturating_sub(clock.now_ms());
        (left_ms > 0).then(|| Duration::from_millis(left_ms))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
