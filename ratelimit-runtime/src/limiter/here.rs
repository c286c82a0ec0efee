//! Limiters with a budget for each process: counted here, with only their configuration in the store.

use std::sync::atomic::{AtomicU64, Ordering};

use ratelimit_spec::Mode;

use super::{Core, Numbers, numbers::Rule};
use crate::{
    Decision, Reason, Rejection, clock,
    limits::Inner,
    store::{Assertion, Config, Request},
};

/// How often a process that counts for itself looks at the stored configuration.
pub(super) const LOOK_EVERY_MS: u64 = 10_000;

impl Core {
    pub(super) fn is_counted_here(&self, numbers: &Numbers) -> bool {
        self.in_force().unwrap_or(numbers.config).mode == Mode::PerClient
    }

    /// Takes permits in this process, with a look at the stored configuration now and then. Nothing
    /// when that look found that the store counts again.
    pub(super) async fn count_here(
        &self,
        limits: &Inner,
        rule: &Rule,
        request: &Request<'_>,
    ) -> Option<Result<Decision, Rejection>> {
        if rule.is_joint() {
            return self.count_all_here(limits, rule, request.permits).await;
        }
        let looked = self.look_in_turn(limits, rule, request).await;
        let config = match (self.in_force(), request.assertion) {
            (Some(config), _) => config,
            // Nobody here knows any numbers, and the store knows none or did not say.
            (None, Assertion::Follow { .. }) if !looked => {
                return Some(Err(self.rejection(Reason::StoreUnavailable)));
            }
            (None, Assertion::Follow { .. }) => return Some(Err(self.unknown())),
            (None, _) => request.config,
        };
        if config.mode != Mode::PerClient {
            return None;
        }
        if looked && rule.is_stated() {
            let slot = self.own.get_or_init(|| limits.per_client.slot(&self.keys));
            slot.admit(self.pass(limits, rule, counted_here(config), self.looks.due_ms()));
        }
        Some(self.count(limits, config, request.permits, true, !looked))
    }

    /// Counts in this process, against these numbers.
    pub(super) fn count(
        &self,
        limits: &Inner,
        config: Config,
        permits: u32,
        take: bool,
        degraded: bool,
    ) -> Result<Decision, Rejection> {
        let rule = self.rule(limits);
        if rule.is_joint() {
            return self.count_jointly(limits, &rule, permits, take, degraded);
        }
        let config = counted_here(config);
        let reply = if take {
            limits.per_client.count(&self.keys, config, permits)
        } else {
            limits.per_client.look(&self.keys, config, permits)
        };
        self.settle(&reply, permits, degraded)
    }

    /// Looks at the stored configuration, for the first time one caller after the other; false when it
    /// could not.
    pub(super) async fn look_in_turn(
        &self,
        limits: &Inner,
        rule: &Rule,
        request: &Request<'_>,
    ) -> bool {
        if rule.is_stated() {
            return self.look(limits, rule, request).await;
        }
        // The caller that looks may be one that is never polled again.
        let first = self.looks.first.lock();
        match clock::timeout(&limits.engine, limits.deadline, first).await {
            Ok(_looking) => self.look(limits, rule, request).await,
            Err(_) => false,
        }
    }

    /// Looks at the stored configuration if it is time to; false when it could not. A look keeps
    /// the configuration alive.
    async fn look(&self, limits: &Inner, rule: &Rule, request: &Request<'_>) -> bool {
        let keep_alive_ms = request.config.keep_alive_ms;
        if !self.looks.begin(limits.clock.now_ms(), rule.is_stated(), keep_alive_ms) {
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
}

/// When a limiter that is counted here looks at the stored configuration.
#[derive(Debug, Default)]
pub(super) struct Looks {
    due_ms: AtomicU64,
    /// When the stored configuration expires by what this process said; 0 is never.
    lapses_ms: AtomicU64,
    /// Held by the one caller that looks for the first time.
    first: tokio::sync::Mutex<()>,
}

impl Looks {
    fn due_ms(&self) -> u64 {
        self.due_ms.load(Ordering::Acquire)
    }

    /// Whether this caller is to look now.
    fn begin(&self, now: u64, stated: bool, keep_alive_ms: u64) -> bool {
        let due = self.due_ms();
        if stated && now < due {
            return false;
        }
        let every = match keep_alive_ms {
            0 => LOOK_EVERY_MS,
            ms => LOOK_EVERY_MS.min(ms / 2),
        };
        let lapses = Some(self.lapses_ms.load(Ordering::Acquire)).filter(|lapses| *lapses > now);
        let next = (now + every).min(lapses.unwrap_or(u64::MAX));
        self.due_ms.compare_exchange(due, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Lets the next call look.
    pub(super) fn hurry(&self, lapses_ms: u64) {
        self.lapses_ms.store(lapses_ms, Ordering::Release);
        self.due_ms.store(0, Ordering::Release);
    }
}

/// The numbers as they count within one process, whatever the mode of the limiter.
pub(super) fn counted_here(config: Config) -> Config {
    Config { mode: Mode::Overall, ..config }
}
