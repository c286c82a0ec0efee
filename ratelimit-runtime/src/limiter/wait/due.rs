//! When a queue expects its head to be admitted.

use std::time::Duration;

use super::LOOK_AGAIN;
use crate::{clock::whole_ms, limiter::services::Services};

/// The next request of a queue to its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// When the permits of the head are free, as far as that is known, in milliseconds.
    pub(super) at: u64,
    /// How much earlier that may be, in milliseconds.
    pub(super) lag: u64,
    /// When to make the request: before that if other processes may free permits early.
    pub(super) ask_at: u64,
}

impl Due {
    /// A request that is made when the permits are free.
    pub(super) fn at(at: u64, lag: u64) -> Self {
        Self { at, lag, ask_at: at }
    }

    /// Makes the request by then.
    pub(super) fn asked_by(self, ask_at: u64) -> Self {
        Self { ask_at: self.ask_at.min(ask_at), ..self }
    }

    /// Makes the request now, for a caller about which nothing is known.
    pub(super) fn no_later_than(self, now: u64) -> Self {
        Self { at: self.at.min(now), ..self.asked_by(now) }
    }

    /// Makes the request that follows a reply: the permits are not free until `at`. A store in this process is queried as
    /// early as they may be free, because that costs no round trip: a test may have moved its clock since the reply.
    pub(super) fn of_reply(limits: &Services, at: u64, lag: u64, degraded: bool) -> Self {
        let due = Self::at(at, lag).asked_by(look_at(limits, at, degraded));
        if limits.store.is_shared() { due } else { due.asked_by(at.saturating_sub(lag)) }
    }
}

/// Returns when to query the store again for a call that waits until `at`: other processes may free
/// permits early. May be later than that. A `degraded` decision may be over much earlier, with the outage.
pub(super) fn look_at(limits: &Services, at: u64, degraded: bool) -> u64 {
    let now = limits.clock.now_ms();
    let wait = Duration::from_millis(at.saturating_sub(now));
    let after = if degraded { LOOK_AGAIN } else { limits.store.look_again_after(wait) };
    now.saturating_add(whole_ms(after))
}
