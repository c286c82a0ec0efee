//! Permits that a call gives back, because it came to nothing.

use std::sync::{Arc, atomic::Ordering};

use ratelimit_spec::{Mode, OnStoreError, RefundOn};
use tokio::runtime::Handle;

use super::Core;
use super::permit::store_error;
use crate::{Answer, Limits, Settlement, StoreError, limits::Inner};

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
        decision: &Answer,
    ) -> Option<Self> {
        if decision.shadowed.is_some() {
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

    /// Returns which calls give permits back to the limiter.
    pub(crate) fn refund_on(&self, limits: &Inner) -> RefundOn {
        let rule = self.core.rule(limits);
        rule.numbers.as_ref().map_or(RefundOn::Never, |numbers| numbers.effective.refund_on.value)
    }

    /// Gives them back. A store that cannot be reached keeps them until their time is over, which is
    /// counted with what else it did not do.
    pub(crate) async fn give_back(self, limits: &Inner) {
        if self.return_some(limits, self.permits).await.is_err() {
            self.count_as_degraded();
        }
    }

    /// Counts what the store did not do.
    pub(super) fn count_as_degraded(&self) {
        self.core.family.tally.degraded.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives so many of them back; how many there were to give back.
    async fn return_some(&self, limits: &Inner, permits: u32) -> Result<u64, StoreError> {
        match self.from {
            Counted::Locally => Ok(self.core.release_locally(limits, permits)),
            Counted::Regularly => self.core.release_in_each(limits, permits).await,
        }
    }

    /// How many permits were taken.
    pub(super) fn permits(&self) -> u64 {
        self.permits.into()
    }

    /// Gives all of them back; how many there were to give back.
    pub(super) async fn return_all(&self, limits: &Inner) -> Result<u64, StoreError> {
        self.return_some(limits, self.permits).await
    }

    /// Corrects them to what the call really cost.
    pub(super) async fn settle(
        &self,
        limits: &Limits,
        actual: u64,
    ) -> Result<Settlement, StoreError> {
        let permits = self.permits();
        if actual > permits {
            let charge = self.core.charge(limits, actual - permits).await;
            return charge.map_err(|rejection| store_error(&rejection));
        }
        let unused = u32::try_from(permits - actual).unwrap_or(u32::MAX);
        let returned = match unused {
            0 => 0,
            unused => self.return_some(limits.inner(), unused).await?,
        };
        Ok(Settlement { returned, debt: self.core.debt(), ..Settlement::default() })
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
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(dropped.give_back())),
            // Outside any runtime nobody can ask a store; they come back when their time is over.
            Err(_) => drop(dropped.keep()),
        }
    }
}
