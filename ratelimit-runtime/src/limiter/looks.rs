//! When a limiter that is counted in this process looks at its stored configuration.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often a process that counts by itself looks at the stored configuration.
pub(super) const LOOK_EVERY_MS: u64 = 10_000;

/// When a limiter that is counted here looks at the stored configuration.
#[derive(Debug, Default)]
pub(super) struct Looks {
    due_ms: AtomicU64,
    /// When the stored configuration expires by what this process wrote; 0 is never.
    lapses_ms: AtomicU64,
    /// Held by the one caller that looks for the first time.
    pub(super) first: tokio::sync::Mutex<()>,
}

impl Looks {
    pub(super) fn due_ms(&self) -> u64 {
        self.due_ms.load(Ordering::Acquire)
    }

    /// Returns whether this caller is to look now.
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

    /// Lets the next call look.
    pub(super) fn hurry(&self, lapses_ms: u64) {
        self.lapses_ms.store(lapses_ms, Ordering::Release);
        self.due_ms.store(0, Ordering::Release);
    }
}
