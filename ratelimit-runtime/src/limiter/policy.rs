//! Decisions this process makes by itself: for limiters that are counted per process, and while the
//! store is away.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, UNIX_EPOCH},
};

use ratelimit_spec::{Mode, OnStoreError};

use super::{Core, Numbers};
use crate::{
    Decision, Quota, Reason, Rejection, StoreError, StoreErrorKind,
    events::Event,
    limits::Inner,
    store::{Assertion, Config, Request},
};

impl Core {
    /// Counts in this process, against the numbers in force.
    pub(super) fn decide_here(
        &self,
        limits: &Inner,
        request: &Request<'_>,
        take: bool,
        degraded: bool,
    ) -> Result<Decision, Rejection> {
        let config = match (self.in_force(), request.assertion) {
            (Some(config), _) => counted_here(config),
            // Nobody here knows any numbers, and the store knows none or did not say.
            (None, Assertion::Follow { .. }) if degraded => {
                return Err(self.rejection(Reason::StoreUnavailable));
            }
            (None, Assertion::Follow { .. }) => return Err(self.unknown()),
            (None, _) => counted_here(request.config),
        };
        let reply = if take {
            limits.per_client.count(&self.keys, config, request.permits)
        } else {
            limits.per_client.look(&self.keys, config, request.permits)
        };
        self.settle(&reply, request.permits, degraded)
    }

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
        let mut config = counted_here(self.in_force().unwrap_or(configured));
        config.rate = config.rate.div_ceil(limits.instances().into());
        let reply = if take {
            limits.local.count(&self.keys, config, permits)
        } else {
            limits.local.look(&self.keys, config, permits)
        };
        self.settle(&reply, permits, true).ok()
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

/// The numbers as they count within one process, whatever the mode of the limiter.
pub(super) fn counted_here(config: Config) -> Config {
    Config { mode: Mode::Overall, ..config }
}

/// Admits a call without counting it.
pub(super) fn unlimited(limits: &Inner, config: Config) -> Decision {
    Decision {
        allowed: true,
        remaining: config.rate,
        retry_after: None,
        reset_after: Duration::ZERO,
        quota: Quota::stored(config.rate, config.per_ms),
        degraded: false,
        at: UNIX_EPOCH + Duration::from_millis(limits.clock.now_ms()),
    }
}
