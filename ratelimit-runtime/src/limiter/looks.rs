//! When a limiter that is counted in this process reads its stored configuration.

use std::sync::atomic::{AtomicU64, Ordering};

/// The interval at which a process that counts by itself reads the stored configuration.
pub(super) const LOOK_EVERY_MS: u64 = 10_000;

/// When a limiter that is counted in this process reads its stored configuration.
#[derive(Debug, Default)]
pub(super) struct Looks {
    due_ms: AtomicU64,
    /// When the stored configuration expires, as written by this process; 0 is never.
    lapses_ms: AtomicU64,
    /// Held by the single caller that reads the configuration for the first time.
    pub(super) first: tokio::sync::Mutex<()>,
}

impl Looks {
    pub(super) fn due_ms(&self) -> u64 {
        self.due_ms.load(Ordering::Acquire)
    }

    /// Returns whether this caller must read the configuration now.
    pub(super) fn begin(&self, now: u64, stated: bool, keep_alive_ms: u64) -> bool {
        let due = self.due_ms();
        if stated && now < due {
            return false;
        }
        let every = match keep_alive_ms {
            0 => LOOK_EVERY_MS,
            ms => LOOK_EVERY_MS.min(ms / 2),
        };
        let lapses = Some(self.lapses_ms.load(Ordering::Acquire)).filter(|lapses| *lapses > now);
        let next = (now + every).min(lapses.unwrap_or(u64::MAX));
        self.due_ms.compare_exchange(due, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Makes the next call read the configuration.
    pub(super) fn hurry(&self, lapses_ms: u64) {
        self.lapses_ms.store(lapses_ms, Ordering::Release);
        self.due_ms.store(0, Ordering::Release);
    }
}
