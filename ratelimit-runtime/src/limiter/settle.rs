//! Permits that a call gives back, because it came to nothing.

use std::sync::{Arc, atomic::Ordering};

use ratelimit_spec::{Mode, OnStoreError, RefundOn};

use super::Core;
use crate::{Decision, Limits, limits::Inner};

/// Permits that one call took from a limiter.
#[derive(Debug)]
pub(crate) struct Taken {
    core: Arc<Core>,
    permits: u32,
    from: Counted,
}

/// Who counted the permits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// The store, or this process where each has its own budget.
    Regularly,
    /// This process, against its share while the store was away.
    Locally,
}

impl Taken {
    /// What a decision took; nothing when it admitted the call without counting it.
    pub(crate) fn by(
        core: Arc<Core>,
        limits: &Inner,
        permits: u32,
        decision: &Decision,
    ) -> Option<Self> {
        if decision.shadowed {
            return None;
        }
        let rule = core.rule(limits);
        let effective = &rule.numbers.as_ref().ok()?.effective;
        if !effective.enabled.value {
            return None;
        }
        let here = core.in_force().map_or(effective.mode.value, |config| config.mode);
        let from = match (decision.degraded, here, effective.on_store_error.value) {
            (false, ..) | (true, Mode::PerClient, _) => Counted::Regularly,
            (true, Mode::Overall, OnStoreError::Allow) => return None,
            (true, Mode::Overall, _) => Counted::Locally,
        };
        Some(Self { core, permits, from })
    }

    /// Whether the limiter gets the permits of failed calls back.
    pub(crate) fn is_refunded(&self, limits: &Inner) -> bool {
        let rule = self.core.rule(limits);
        let numbers = rule.numbers.as_ref();
        numbers.is_ok_and(|numbers| numbers.effective.refund_on.value == RefundOn::Err)
    }

    /// Gives them back. A store that cannot be reached keeps them until their time is over, which is
    /// counted with what else it did not do.
    pub(crate) async fn give_back(self, limits: &Inner) {
        let core = &self.core;
        if self.from == Counted::Locally {
            core.release_locally(limits, self.permits);
        } else if core.release_in_each(limits, self.permits).await.is_err() {
            core.family.tally.degraded.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a call took so far from each of its limiters. It is given back unless it is
/// [kept](Self::keep), also when the call is dropped.
#[derive(Debug)]
pub(crate) struct Pending<const N: usize> {
    limits: Limits,
    taken: [Option<Taken>; N],
}

impl<const N: usize> Pending<N> {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limits: limits.clone(), taken: [const { None }; N] }
    }

    pub(crate) fn put(&mut self, position: usize, taken: Option<Taken>) {
        self.taken[position] = taken;
    }

    pub(crate) fn keep(mut self) -> [Option<Taken>; N] {
        self.take()
    }

    /// Gives everything back, the last first.
    pub(crate) async fn give_back(mut self) {
        for position in (0..N).rev() {
            if let Some(taken) = self.taken[position].take() {
                taken.give_back(self.limits.inner()).await;
            }
        }
    }

    fn take(&mut self) -> [Option<Taken>; N] {
        std::mem::replace(&mut self.taken, [const { None }; N])
    }
}

impl<const N: usize> Drop for Pending<N> {
    fn drop(&mut self) {
        if self.taken.iter().all(Option::is_none) {
            return;
        }
        let dropped = Self { taken: self.take(), limits: self.limits.clone() };
        self.limits.inner().finish(dropped.give_back());
    }
}
