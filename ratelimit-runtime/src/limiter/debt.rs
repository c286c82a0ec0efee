//! Costs that are known only afterwards: what is not free then is owed, and paid before anything
//! else is taken.
//!
//! A debt is this process's. Payers go one at a time, so that no permit is paid twice.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ratelimit_spec::{MAX_RATE, OnStoreError};

use super::Core;
use crate::{
    Answer, Limits, Reason, Rejection, Settlement, limits::Inner, store::Config, waiting::Queue,
};

/// Requests that one charge makes at most; what others leave free changes while it asks.
const TRIES: u32 = 3;

/// What a limiter owes.
#[derive(Debug, Default)]
pub(super) struct Debt {
    owed: Mutex<u64>,
    /// Held by whoever pays.
    paying: tokio::sync::Mutex<()>,
}

impl Debt {
    fn owed(&self) -> u64 {
        *self.lock()
    }

    /// Changes what is owed, and what callers find at first sight.
    fn change<T>(&self, queue: &Queue, change: impl FnOnce(&mut u64) -> T) -> T {
        let mut owed = self.lock();
        let result = change(&mut owed);
        queue.set_owing(*owed > 0);
        result
    }

    /// Pays, and returns how much of it was owed.
    fn pay(&self, queue: &Queue, permits: u64) -> u64 {
        self.change(queue, |owed| {
            let paid = permits.min(*owed);
            *owed -= paid;
            paid
        })
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Permits that this process owes.
    pub(crate) fn debt(&self) -> u64 {
        self.debt.get().map_or(0, |debt| debt.owed())
    }

    /// Takes permits as far as they are free, and owes the others.
    pub(crate) async fn charge(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u64,
    ) -> Result<Settlement, Rejection> {
        if !self.numbers(limits.inner())?.effective.enabled.value {
            return Ok(Settlement::default());
        }
        let debt = self.debt.get_or_init(Box::default);
        let _paying = debt.paying.lock().await;
        let before = debt.owed();
        // First, so that a charge which is dropped is not lost.
        debt.change(&self.queue, |owed| *owed = owed.saturating_add(permits));
        if let Err(rejection) = self.pay_what_is_free(limits, debt).await {
            debt.pay(&self.queue, permits);
            return Err(rejection);
        }
        let mut charge = Settlement::default();
        let most = before.max(self.capacity(limits.inner()));
        let total = before.saturating_add(permits);
        debt.change(&self.queue, |owed| {
            charge.taken = total.saturating_sub(*owed);
            charge.excess = owed.saturating_sub(most);
            *owed -= charge.excess;
            charge.debt = *owed;
        });
        Ok(charge)
    }

    /// Pays as much of a debt as is free. A store that is unavailable leaves all of it owed.
    async fn pay_what_is_free(
        self: &Arc<Self>,
        limits: &Limits,
        debt: &Debt,
    ) -> Result<(), Rejection> {
        let mut free = MAX_RATE.into();
        for _ in 0..TRIES {
            // Who does not know the capacity yet hears of it with the first permit.
            let most = self.capacity(limits.inner()).max(1);
            let ask = debt.owed().min(most).min(free);
            if ask == 0 {
                break;
            }
            match self.decide(limits, whole(ask)).await {
                Ok(decision) if decision.allowed => {
                    if !self.pays(limits.inner(), &decision) {
                        return Ok(());
                    }
                    debt.pay(&self.queue, ask);
                    free = decision.remaining;
                }
                Ok(refusal) => free = refusal.remaining.min(ask - 1),
                Err(rejection) => match rejection.reason() {
                    Reason::ExceedsCapacity => free = ask - 1,
                    Reason::StoreUnavailable => return Ok(()),
                    _ => return Err(rejection),
                },
            }
        }
        Ok(())
    }

    /// Takes permits if they are free when all that is owed is paid; one request in most cases.
    pub(super) async fn decide_after_debt(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u32,
    ) -> Result<Answer, Rejection> {
        let Some(debt) = self.debt.get().filter(|debt| debt.owed() > 0) else {
            return self.decide(limits, permits).await;
        };
        // Few limiters owe anything, and the others need no room for it.
        Box::pin(self.pay_and_decide(limits, debt, permits)).await
    }

    async fn pay_and_decide(
        self: &Arc<Self>,
        limits: &Limits,
        debt: &Debt,
        permits: u32,
    ) -> Result<Answer, Rejection> {
        let _paying = debt.paying.lock().await;
        loop {
            let (owed, capacity) = (debt.owed(), self.capacity(limits.inner()));
            if owed == 0 || u64::from(permits) > capacity {
                return self.decide(limits, permits).await;
            }
            let together = owed + u64::from(permits);
            let ask = if together <= capacity { together } else { owed.min(capacity) };
            let decision = match self.decide(limits, whole(ask)).await {
                // The policy is for calls, and does not ask for more than theirs.
                Err(rejection) if rejection.reason() == Reason::StoreUnavailable => {
                    return self.decide(limits, permits).await;
                }
                answer => answer?,
            };
            if !decision.allowed {
                let free = decision.remaining.min(owed).min(ask - 1);
                self.pay_part(limits, debt, free).await;
                return Ok(decision);
            }
            if !self.pays(limits.inner(), &decision) {
                return Ok(decision);
            }
            debt.pay(&self.queue, owed.min(ask));
            if ask == together {
                return Ok(decision);
            }
        }
    }

    /// Pays what is free of a debt that is not: else whoever asks for less would always be first.
    async fn pay_part(self: &Arc<Self>, limits: &Limits, debt: &Debt, free: u64) {
        if free == 0 {
            return;
        }
        let answer = self.decide(limits, whole(free)).await;
        if answer.is_ok_and(|decision| decision.allowed && self.pays(limits.inner(), &decision)) {
            debt.pay(&self.queue, free);
        }
    }

    /// Gives permits back to what is owed first; how many were.
    pub(super) fn repay(&self, permits: u32) -> u32 {
        let owed = self.debt.get().map_or(0, |debt| debt.pay(&self.queue, permits.into()));
        whole(owed)
    }

    /// Forgets what is owed, with everything that is used.
    pub(super) fn forgive(&self) {
        if let Some(debt) = self.debt.get() {
            debt.change(&self.queue, |owed| *owed = 0);
        }
    }

    /// What so many more permits cost, as far as one request can ask for them.
    pub(super) fn next_cost(&self, limits: &Inner, permits: u32) -> u32 {
        match self.debt() {
            0 => permits,
            owed => {
                whole((owed + u64::from(permits)).min(self.capacity(limits).max(permits.into())))
            }
        }
    }

    /// The most permits that one request can get, as far as this process knows.
    fn capacity(&self, limits: &Inner) -> u64 {
        let all = self.known_of_all(limits).unwrap_or_default();
        let least = all.iter().map(Config::capacity).min().unwrap_or(0);
        let parts = self.shards(limits).map_or(1, |shards| shards.len() as u64);
        least / parts
    }

    /// Whether a decision took the permits it allowed.
    fn pays(&self, limits: &Inner, decision: &Answer) -> bool {
        let allows = self
            .numbers(limits)
            .is_ok_and(|numbers| numbers.effective.on_store_error.value == OnStoreError::Allow);
        !(decision.degraded && allows)
    }
}

/// A number of permits that was compared with a capacity.
fn whole(permits: u64) -> u32 {
    u32::try_from(permits).unwrap_or(MAX_RATE)
}
