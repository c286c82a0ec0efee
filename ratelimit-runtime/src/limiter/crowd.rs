//! Work that starts when a program has used many limiters.

use std::{
    pin::Pin,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::engine::Engine;

/// Fewer limiters use little memory: no thread is started for them.
const MANY: usize = 1_000;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Counts new limiters, and has the work that many of them need.
#[derive(Default)]
pub(crate) struct Crowd {
    created: AtomicUsize,
    work: Mutex<Option<Work>>,
}

impl Crowd {
    /// Lets this work start when there are many limiters. It ends with the engine.
    pub(crate) fn prepare(&self, work: impl Future<Output = ()> + Send + 'static) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(work));
    }

    /// Counts a new limiter, or one that was forgotten.
    pub(crate) fn grow(&self, engine: &Engine) {
        if self.created.fetch_add(1, Ordering::Relaxed) == MANY
            && let Some(work) = self.work.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            engine.try_spawn_endless(work);
        }
    }
}
