//! What decides while the store is away.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, UNIX_EPOCH},
};

use ratelimit_spec::OnStoreError;

use super::{Core, Numbers, here::counted_here};
use crate::{
    Decision, Reason, Rejection, StoreError, StoreErrorKind,
    events::Event,
    limits::Inner,
    store::{Config, Request},
};

impl Core {
    /// Decides by the policy, because the store did not.
    pub(super) fn without_store(
        &self,
        limits: &Inner,
        numbers: &Numbers,
        request: &Request<'_>,
        take: bool,
        error: &StoreError,
    ) -> Result<Decision, Rejection> {
        if error.kind() == StoreErrorKind::Misconfigured {
            return Err(self.rejection(Reason::StoreMisconfigured).with_detail(error.to_string()));
        }
        self.family.tally.degraded.fetch_add(1, Ordering::Relaxed);
        match numbers.effective.on_store_error.value {
            OnStoreError::Allow => {
                let config = self.in_force().unwrap_or(request.config);
                Ok(Decision { degraded: true, ..unlimited(limits, config) })
            }
            OnStoreError::Reject => {
                Err(self.rejection(Reason::StoreUnavailable).with_detail(error.to_string()))
            }
            _ => {
                let decision = self.decide_locally(limits, request.permits, request.config, take);
                decision.ok_or_else(|| {
                    let share = "the local share while the store is away is smaller than this call";
                    self.rejection(Reason::StoreUnavailable).with_detail(share)
                })
            }
        }
    }

    /// Counts in this process, against its share of the quota; nothing when the share can never
    /// grant so many permits.
    pub(crate) fn decide_locally(
        &self,
        limits: &Inner,
        permits: u32,
        configured: Config,
        take: bool,
    ) -> Option<Decision> {
        let config = self.share_of(limits, configured);
        let reply = if take {
            limits.local.count(&self.keys, config, permits)
        } else {
            limits.local.look(&self.keys, config, permits)
        };
        self.settle(&reply, permits, true).ok()
    }

    /// What this process may grant while the store is away.
    pub(super) fn share_of(&self, limits: &Inner, configured: Config) -> Config {
        let mut config = counted_here(self.in_force().unwrap_or(configured));
        config.rate = config.rate.div_ceil(limits.instances().into());
        config.burst = config.burst.div_ceil(limits.instances());
        config
    }

    /// Tells once that a function which cannot refuse is counted locally.
    pub(crate) fn complain(&self, limits: &Inner, rejection: &Rejection) {
        if !self.complained.swap(true, Ordering::Relaxed) {
            let error = StoreError::misconfigured(rejection.to_string());
            limits
                .events
                .emit(&Event::Misconfigured { limiter: Arc::clone(&self.family.key), error });
        }
    }
}

/// Admits a call without counting it.
pub(super) fn unlimited(limits: &Inner, config: Config) -> Decision {
    Decision {
        allowed: true,
        remaining: config.rate,
        retry_after: None,
        reset_after: Duration::ZERO,
        quota: config.quota(),
        degraded: false,
        shadowed: false,
        at: UNIX_EPOCH + Duration::from_millis(limits.clock.now_ms()),
    }
}
