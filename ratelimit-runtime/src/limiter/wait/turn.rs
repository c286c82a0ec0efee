//! The future of a caller that waits.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    chair::{Answer, Chair},
    driver,
    rest::Partial,
};
use crate::{Rejection, limiter::Services};

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
    type Output = Result<Partial, (usize, Rejection)>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.chair.state();
        match std::mem::replace(&mut state.answer, Answer::Over) {
            Answer::There(result) => {
                let limits = self.limits.clone();
                Poll::Ready(result.map(|received| Partial::new(limits, received)))
            }
            Answer::Awaited(_) => {
                state.answer = Answer::Awaited(Some(context.waker().clone()));
                let place = state.place;
                drop(state);
                // The runtime that polled this future before may have ended, and the driver with it.
                if let Some((position, _)) = place {
                    driver::check_timers(&self.limits);
                    driver::ensure(&self.chair.claims[position].core, &self.limits);
                }
                Poll::Pending
            }
            Answer::Over => Poll::Pending,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (limits, mut state) = (&self.limits, self.chair.state());
        let answer = std::mem::replace(&mut state.answer, Answer::Over);
        let (place, held) = (state.place.take(), std::mem::take(&mut state.held));
        drop(state);
        match answer {
            Answer::Awaited(_) => {
                if let Some((position, number)) = place {
                    let (queue, now) =
                        (&self.chair.claims[position].core.queue, limits.clock.now_ms());
                    queue.change(|line| line.leave(number, now));
                    queue.waiting().changed.notify_waiters();
                }
                driver::give_back(limits, held);
            }
            Answer::There(Ok(held)) => driver::give_back(limits, held),
            Answer::There(Err(_)) | Answer::Over => {}
        }
    }
}
