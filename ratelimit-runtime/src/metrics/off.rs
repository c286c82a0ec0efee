//! Nothing is measured.

use std::time::Duration;

use crate::{Reason, StoreError};

#[derive(Default)]
pub(crate) struct Measured;

impl Measured {
    pub(crate) fn new(_: &str) -> Self {
        Self
    }

    pub(crate) fn admitted(&self, _: bool) {}

    pub(crate) fn rejected(&self, _: Reason) {}

    pub(crate) fn waited(&self, _: Duration) {}

    pub(crate) fn waits(&self) -> Waiting {
        Waiting
    }

    pub(crate) fn degraded(&self) {}

    pub(crate) fn blocked(&self) {}

    pub(crate) fn shadowed(&self) {}

    pub(crate) fn shared(&self) {}

    pub(crate) fn refunded(&self, _: u64) {}

    pub(crate) fn reconciled(&self, _: &'static str) {}
}

pub(crate) struct Waiting;

pub(crate) fn describe() {}

pub(crate) fn count_event(_: &'static str) {}

pub(crate) fn count_requests(_: usize) {}

pub(crate) async fn timed<T>(
    _: &'static str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    call.await
}
