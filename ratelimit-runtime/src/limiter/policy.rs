//! What decides while the store is away.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, UNIX_EPOCH},
};

use ratelimit_spec::OnStoreError;

use super::{Core, Numbers, each::GivenBack, here::counted_here, several::Part};
use crate::{
    Decision, Reason, Rejection, StoreError, StoreErrorKind, events::Event, limits::Inner,
    store::Config,
};

impl Core {
    /// Decides by the policy, because the store did not.
    pub(super) fn without_store(
        &self,
        limits: &Inner,
        numbers: &Numbers,
        permits: u32,
        take: bool,
        error: &StoreError,
    ) -> Result<Decision, Rejection> {
        if error.kind() == StoreErrorKind::Misconfigured {
            return Err(self.rejection(Reason::StoreMisconfigured).with_detail(error.to_string()));
        }
        self.family.tally.degraded.fetch_add(1, Ordering::Relaxed);
        match numbers.effective.on_store_error.value {
            OnStoreError::Allow => {
                let config = self.in_force().unwrap_or(numbers.config);
                Ok(Decision { degraded: true, ..unlimited(limits, config) })
            }
            OnStoreError::Reject => {
                Err(self.rejection(Reason::StoreUnavailable).with_detail(error.to_string()))
            }
            _ => {
                let decision = self.decide_locally(limits, permits, numbers.config, take);
                decision.ok_or_else(|| {
                    let share = "the local share while the store is away is smaller than this call";
                    self.rejection(Reason::StoreUnavailable).with_detail(share)
                })
            }
        }
    }

    /// Gives back what was decided locally.
    pub(super) fn release_locally(self: &Arc<Self>, limits: &Inner, permits: u32) {
        let mut back = GivenBack::new(permits, self.shards(limits).is_some());
        for core in self.limiters(limits) {
            let Ok(config) = core.known(limits) else { continue };
            back.add(limits.local.uncount(&core.keys, share_of(limits, config), back.next()));
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
        let rule = self.rule(limits);
        if rule.is_joint() {
            let share = |part: Part<'_>| share_of(limits, part.in_force());
            let reply = self.counted(&limits.local, &rule, share, permits, take);
            return self.settle(&reply, permits, true).ok();
        }
        let config = share_of(limits, self.in_force().unwrap_or(configured));
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

/// What this process may grant of these numbers while the store is away.
pub(super) fn share_of(limits: &Inner, config: Config) -> Config {
    let mut config = counted_here(config);
    config.rate = config.rate.div_ceil(limits.instances().into());
    config.burst = config.burst.div_ceil(limits.instances());
    config
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
        violated: None,
        at: UNIX_EPOCH + Duration::from_millis(limits.clock.now_ms()),
    }
}
