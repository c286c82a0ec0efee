//! What a layer keeps for each set of limits.

use std::{
    ptr,
    sync::{Arc, Weak},
};

use arc_swap::ArcSwapOption;
use once_cell::race::OnceBox;

use crate::{Limits, limiter::Services};

/// A value for each set of limits in turn: kept for the first ones, as most programs have no others, and for the last
/// others.
#[derive(Debug)]
pub(super) struct PerLimits<T> {
    first: OnceBox<Of<T>>,
    last: ArcSwapOption<Of<T>>,
}

/// A value, and the limits that it belongs to.
#[derive(Debug)]
struct Of<T> {
    limits: Weak<Services>,
    value: T,
}

impl<T> Of<T> {
    fn of(&self, limits: &Limits) -> Option<&T> {
        ptr::eq(self.limits.as_ptr(), Arc::as_ptr(limits.services())).then_some(&self.value)
    }
}

impl<T> PerLimits<T> {
    pub(super) fn new() -> Self {
        Self { first: OnceBox::new(), last: ArcSwapOption::const_empty() }
    }

    /// Calls a function with the value for these limits, which is found if it is not kept.
    pub(super) fn with<R>(
        &self,
        limits: &Limits,
        find: impl Fn() -> T,
        run: impl FnOnce(&T) -> R,
    ) -> R {
        let found = || Of { limits: Arc::downgrade(limits.services()), value: find() };
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
