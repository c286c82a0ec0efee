//! What a call holds once it is admitted.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, Waker},
};

use tokio::runtime::Handle;

use super::settle::Taken;
use crate::Limits;
use ratelimit_spec::RefundOn;

/// Permits that were granted to a call.
#[derive(Debug, Default)]
pub struct Permit {
    held: Option<(Limits, Taken)>,
    recorded: Option<AtomicU64>,
}

impl Permit {
    pub(crate) fn new(limits: &Limits, taken: Option<Taken>) -> Self {
        Self {
            held: taken.map(|taken| (limits.clone(), taken)),
            recorded: Some(AtomicU64::new(u64::MAX)),
        }
    }

    /// Returns which calls of its limiter give permits back, or `None` if there is nothing to give back.
    pub(crate) fn refund_on(&self) -> Option<RefundOn> {
        self.held.as_ref().map(|(limits, taken)| taken.refund_on(limits.inner()))
    }

    pub(crate) fn record(&self, used: u64) {
        if let Some(recorded) = &self.recorded {
            recorded.store(used, Ordering::Relaxed);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(recorded) = &mut self.recorded else { return };
        let Some((limits, taken)) = self.held.take() else { return };
        if *recorded.get_mut() == 0 {
            let is_shared = limits.inner().store.is_shared();
            later(is_shared, async move { taken.give_back(limits.inner()).await });
        }
    }
}

/// Runs a settlement off the caller's path. What needs no store's answer is done at once, so that the next call finds it
/// done; the rest is handed to the caller's runtime. Outside of one, a shared store is not reached.
fn later(is_shared: bool, settlement: impl Future<Output = ()> + Send + 'static) {
    let runtime = Handle::try_current();
    if runtime.is_err() && is_shared {
        return;
    }
    let mut settlement = Box::pin(settlement);
    let first = settlement.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    if let (Poll::Pending, Ok(runtime)) = (first, runtime) {
        runtime.spawn(settlement);
    }
}
