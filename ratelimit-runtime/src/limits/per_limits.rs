//! What a call site or a layer keeps for each set of limits.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use once_cell::race::OnceBox;

use super::Limits;

/// A value for each set of limits in turn: kept for the first ones, as most programs have no others, and for the last
/// others.
#[derive(Debug)]
pub(crate) struct PerLimits<T> {
    first: OnceBox<Of<T>>,
    last: ArcSwapOption<Of<T>>,
}

/// A value, and the limits that it belongs to.
#[derive(Debug)]
pub(crate) struct Of<T> {
    limits: u64,
    pub(crate) value: T,
}

impl<T> Of<T> {
    #[inline(always)]
    pub(crate) fn is_of(&self, limits: &Limits) -> bool {
        self.limits == limits.services().id
    }

    #[inline(always)]
    fn of(&self, limits: &Limits) -> Option<&T> {
        self.is_of(limits).then_some(&self.value)
    }
}

impl<T> PerLimits<T> {
    pub(crate) const fn new() -> Self {
        Self { first: OnceBox::new(), last: ArcSwapOption::const_empty() }
    }

    /// Returns the value for these limits if they were the first ones.
    #[inline(always)]
    pub(crate) fn first(&self, limits: &Limits) -> Option<&T> {
        self.first.get().and_then(|first| first.of(limits))
    }

    /// Returns the value for the first limits, whichever they are.
    #[inline(always)]
    pub(crate) fn of_the_first(&self) -> Option<&Of<T>> {
        self.first.get()
    }

    /// Calls a function with the value for these limits, which is found if it is not kept.
    pub(crate) fn with<R>(
        &self,
        limits: &Limits,
        find: impl Fn() -> T,
        run: impl FnOnce(&T) -> R,
    ) -> R {
        let found = || Of { limits: limits.services().id, value: find() };
        if let Some(value) = self.first.get_or_init(|| Box::new(found())).of(limits) {
            return run(value);
        }
        let last = self.last.load();
        if let Some(value) = last.as_ref().and_then(|last| last.of(limits)) {
            return run(value);
        }
        let found = Arc::new(found());
        self.last.store(Some(Arc::clone(&found)));
        run(&found.value)
    }
}
