//! Whether callers of this process wait for a limiter, to be read without a lock.

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
    /// How often something may have become free before its time.
    pub(super) changes: AtomicU32,
    /// The callers, as `wait` keeps them: they hold limiters themselves. None before the first one.
    pub(super) waiting: OnceBox<Box<dyn Any + Send + Sync>>,
}

impl Queue {
    /// Returns whether no caller waits.
    pub(crate) fn is_empty(&self) -> bool {
        !self.busy.load(Ordering::Acquire)
    }
}
