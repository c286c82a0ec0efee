//! Temporary seams.
use super::*;
use crate::limits::AnyStore;
use ratelimit_spec::Algorithm;
impl Config {
    pub(crate) fn is_spaced(&self) -> bool {
        self.algorithm == Algorithm::LeakyBucket || self.warm_up_ms > 0
    }
}
impl AnyStore {
    pub(crate) fn one_call(&self, _a: &StateKeys, _b: &StateKeys) -> bool {
        true
    }
    pub(crate) async fn peek2(&self, r: &Request<'_>, cost: u32) -> Result<Reply, StoreError> {
        self.peek(&r.permits(cost)).await
    }
}
