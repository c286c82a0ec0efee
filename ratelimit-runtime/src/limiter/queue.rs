//! Whether callers of this process wait for a limiter, readable without a lock.

use std::{
    any::Any,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use once_cell::race::OnceBox;

/// The callers of this process that wait for one limiter.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Whether any caller waits.
    pub(super) busy: AtomicBool,
    /// The number of times that permits may have become free early.
    pub(super) changes: AtomicU32,
    /// The callers, as stored by `wait`: they hold limiters themselves. Empty before the first caller.
    pub(super) waiting: OnceBox<Box<dyn Any + Send + Sync>>,
}

impl Queue {
    /// Returns whether no caller waits.
    pub(crate) fn is_empty(&self) -> bool {
        !self.busy.load(Ordering::Acquire)
    }
}
