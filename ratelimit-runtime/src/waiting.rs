//! Callers that wait for a permit: one queue for each limiter and process.
//!
//! First come, first served; a bucket hands out slots instead, and here its callers are only
//! counted. Only the head asks the store and sleeps; the others sleep on it. A
//! dropped future leaves the queue wherever it stands.

use std::{
    pin::pin,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use tokio::sync::{Mutex, MutexGuard, Notify};

use crate::store::Config;

/// Beside the number of callers: the limiter owes permits.
const OWING: u32 = 1 << 31;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Held by the head; tokio's mutex is fair and safe to cancel.
    turn: Mutex<()>,
    /// How many wait, and [`OWING`].
    waiters: AtomicU32,
    permits: AtomicU64,
    /// When the head expects its permits, in the clock's milliseconds.
    head_at: AtomicU64,
    /// Wakes the head before its time.
    stir: Notify,
    /// How often that was done.
    stirs: AtomicU64,
}

/// The queue has no room.
#[derive(Debug)]
pub(crate) struct Full;

impl Queue {
    /// Nobody waits, and nothing is owed.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiters.load(Ordering::Acquire) == 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.load(Ordering::Acquire) & !OWING == 0
    }

    /// Says whether permits are owed.
    pub(crate) fn set_owing(&self, owing: bool) {
        if owing {
            self.waiters.fetch_or(OWING, Ordering::AcqRel);
        } else {
            self.waiters.fetch_and(!OWING, Ordering::AcqRel);
        }
    }

    /// Takes a place at the end, unless `room` callers wait already.
    pub(crate) fn join(&self, permits: u32, room: u32) -> Result<Place<'_>, Full> {
        let room = room.min(OWING - 1);
        let one_more = |waiters: u32| (waiters & !OWING < room).then(|| waiters + 1);
        self.waiters
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
            .map_err(|_| Full)?;
        let ahead = self.permits.fetch_add(permits.into(), Ordering::AcqRel);
        Ok(Place { queue: self, permits, ahead })
    }

    /// Lets the head look again: something may be free before its time.
    pub(crate) fn stir(&self) {
        self.stirs.fetch_add(1, Ordering::AcqRel);
        self.stir.notify_waiters();
    }

    /// How often it was stirred, to be read before the store is asked.
    pub(crate) fn stirs(&self) -> u64 {
        self.stirs.load(Ordering::Acquire)
    }

    /// The milliseconds until the head expects to go.
    pub(crate) fn head_in(&self, now: u64) -> u64 {
        self.head_at.load(Ordering::Acquire).saturating_sub(now)
    }
}

/// A place in the queue, left when dropped.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    queue: &'a Queue,
    permits: u32,
    ahead: u64,
}

impl<'a> Place<'a> {
    /// Waits for everybody ahead to go or give up.
    pub(crate) async fn turn(&self) -> MutexGuard<'a, ()> {
        self.queue.turn.lock().await
    }

    /// The turn, when nobody is ahead.
    pub(crate) fn turn_now(&self) -> Option<MutexGuard<'a, ()>> {
        self.queue.turn.try_lock().ok()
    }

    /// Waits until somebody stirs the queue, or has since it was stirred so often: what was given
    /// back while the store was asked is not missed.
    pub(crate) async fn stirred(&self, since: u64) {
        let mut stirred = pin!(self.queue.stir.notified());
        stirred.as_mut().enable();
        if self.queue.stirs() == since {
            stirred.await;
        }
    }

    /// Says when this caller, now the head, expects to go.
    pub(crate) fn expect_at(&self, at: u64) {
        self.queue.head_at.store(at, Ordering::Release);
    }

    /// The fewest milliseconds this can take, if nobody ahead gives up: nobody overtakes the head,
    /// and from its turn on nothing grants more than its rule.
    pub(crate) fn earliest(&self, config: Config, now: u64) -> u64 {
        let head = if self.ahead == 0 { 0 } else { self.queue.head_in(now) };
        head.saturating_add(config.least_ms(self.ahead, self.permits.into(), head > 0))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.permits.fetch_sub(self.permits.into(), Ordering::AcqRel);
        self.queue.waiters.fetch_sub(1, Ordering::AcqRel);
    }
}
