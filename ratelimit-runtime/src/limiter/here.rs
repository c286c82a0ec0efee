//! Limiters with a budget for each process: counted here, with only their configuration in the store.

use std::sync::atomic::Ordering;

use ratelimit_spec::Mode;

use super::{Core, Numbers, numbers::Rule};
use crate::{
    Decision, Reason, Rejection,
    limits::Inner,
    store::{Assertion, Config, Request},
};

/// How often a process that counts for itself looks at the stored configuration.
pub(super) const LOOK_EVERY_MS: u64 = 10_000;

impl Core {
    pub(super) fn is_counted_here(&self, numbers: &Numbers) -> bool {
        self.in_force().unwrap_or(numbers.config).mode == Mode::PerClient
    }

    /// Counts in this process, with a look at the stored configuration now and then. Nothing when
    /// that look found that the store counts again.
    pub(super) async fn count_here(
        &self,
        limits: &Inner,
        rule: &Rule,
        request: &Request<'_>,
        take: bool,
    ) -> Option<Result<Decision, Rejection>> {
        // A failure closes the way to the store, so nobody waits here for longer than one deadline.
        let _looking = if rule.is_stated() { None } else { Some(self.looking.lock().await) };
        let looked = self.look(limits, rule, request).await;
        let config = self.in_force().unwrap_or(request.config);
        if config.mode != Mode::PerClient {
            return None;
        }
        if looked && rule.is_stated() {
            let slot = self.own.get_or_init(|| limits.per_client.slot(&self.keys));
            let looked_ms = self.looked_ms.load(Ordering::Acquire);
            slot.admit(self.pass(limits, rule, counted_here(config), looked_ms));
        }
        Some(self.decide_here(limits, request, take, !looked))
    }

    /// Looks at the stored configuration if it is time to; false when it could not.
    async fn look(&self, limits: &Inner, rule: &Rule, request: &Request<'_>) -> bool {
        let now = limits.clock.now_ms();
        let looked = self.looked_ms.load(Ordering::Acquire);
        let due = !rule.is_stated() || now >= looked + LOOK_EVERY_MS;
        let mark = &self.looked_ms;
        if !due || mark.compare_exchange(looked, now, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            return true;
        }
        match limits.store.assert(request).await {
            Ok(reply) => {
                self.observe(limits, rule, &reply);
                true
            }
            Err(_) => false,
        }
    }

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
}

/// The numbers as they count within one process, whatever the mode of the limiter.
pub(super) fn counted_here(config: Config) -> Config {
    Config { mode: Mode::Overall, ..config }
}
