//! The future of a caller that waits.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    Outcome,
    chair::{Answer, Chair},
    driver,
};
use crate::limiter::{Services, taken::Taken};

/// The future of a caller that waits. Dropping it leaves the queue.
pub(super) struct Turn {
    limits: Arc<Services>,
    chair: Arc<Chair>,
}

impl Turn {
    pub(super) fn new(limits: &Arc<Services>, chair: Arc<Chair>) -> Self {
        Self { limits: limits.clone(), chair }
    }
}

impl Future for Turn {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = self.chair.state();
        match std::mem::replace(&mut state.answer, Answer::Over) {
            Answer::There(outcome, _) => Poll::Ready(outcome),
            Answer::Awaited(_) => {
                state.answer = Answer::Awaited(Some(context.waker().clone()));
                let place = state.place.as_ref().map(|(core, _)| Arc::clone(core));
                drop(state);
                // The runtime that polled this future before may have ended, and the driver with it.
                if let Some(core) = place {
                    driver::check_timers(&self.limits);
                    driver::ensure(&core, &self.limits);
                }
                Poll::Pending
            }
            Answer::Over => Poll::Pending,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.chair.state();
        let answer = std::mem::replace(&mut state.answer, Answer::Over);
        let Some((core, number)) = state.place.take() else { return };
        drop(state);
        let now = self.limits.clock.now_ms();
        match answer {
            Answer::Awaited(_) => drop(core.queue.change(|line| line.leave(number, now))),
            Answer::There(Ok(_), Some(slot)) => {
                core.queue.change(|line| line.put(*slot));
                // The driver ends once nothing is reserved, and nothing starts the engine after a shutdown.
                if !self.limits.is_shut_down() {
                    driver::ensure(&core, &self.limits);
                }
            }
            Answer::There(Ok(granted), None) => {
                Taken::give_back_later(&self.limits, granted.into_iter().map(|got| got.taken));
            }
            Answer::There(Err(_), _) | Answer::Over => return,
        }
        core.queue.waiting().changed.notify_waiters();
    }
}
