//! One limiter under one key: a single decision, whatever has to be asked for it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use arc_swap::ArcSwap;
use ratelimit_spec::Mode;

use super::{Numbers, numbers::Rule, policy::unlimited};
use crate::{
    Decision, Quota, Reason, Rejection,
    events::Event,
    limits::{Family, Inner},
    store::{Assertion, Config, Outcome, Reconciled, Reply, Request, StateKeys},
    waiting::Queue,
};

/// How often a process that counts for itself looks at the stored configuration.
const LOOK_EVERY_MS: u64 = 10_000;

pub(crate) struct Core {
    pub(crate) family: Arc<Family>,
    pub(crate) keys: StateKeys,
    /// The name without `key_prefix`, which overrides and prefixes go by.
    pub(super) name: String,
    /// The quota a caller gave in code.
    pub(super) given: Mutex<Option<Quota>>,
    pub(super) rule: ArcSwap<Rule>,
    /// What the store last said is in force.
    in_force: Mutex<InForce>,
    /// Held by the one caller that states the configuration, while others that came at the same time wait.
    stating: tokio::sync::Mutex<()>,
    looked_ms: AtomicU64,
    /// Whether an unusable store was told of.
    pub(super) complained: AtomicBool,
    pub(crate) queue: Queue,
}

/// What the store said is in force, and when, by its clock.
#[derive(Default)]
struct InForce {
    config: Option<Config>,
    at_ms: u64,
}

impl InForce {
    /// Whether a reply is older than what is known: the callers of a process read theirs in any
    /// order. A clock that stepped back makes nothing old.
    fn has_overtaken(&self, reply: &Reply) -> bool {
        const UNDER_WAY_MS: u64 = 5_000;
        let age = self.at_ms.saturating_sub(reply.now_ms);
        let same_time = age == 0 && self.at_ms == reply.now_ms && reply.reconciled.is_none();
        (1..UNDER_WAY_MS).contains(&age) || (same_time && self.config.is_some())
    }
}

impl Core {
    pub(crate) fn new(
        limits: &Inner,
        family: Arc<Family>,
        name: String,
        given: Option<Quota>,
    ) -> Self {
        let current = limits.current();
        let rule = Rule::new(&current, &family, &name, given);
        Self {
            keys: StateKeys::new(format!("{}{name}", limits.key_prefix)),
            family,
            name,
            given: Mutex::new(given),
            rule: ArcSwap::from_pointee(rule),
            in_force: Mutex::default(),
            stating: tokio::sync::Mutex::new(()),
            looked_ms: AtomicU64::new(0),
            complained: AtomicBool::new(false),
            queue: Queue::default(),
        }
    }

    /// What is in force, as far as this process knows.
    pub(crate) fn in_force(&self) -> Option<Config> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).config
    }

    /// Takes note of numbers this process wrote itself.
    pub(super) fn note(&self, config: Config) {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).config = Some(config);
    }

    /// Takes permits now, or says why not. One store call at the most in steady state.
    pub(crate) async fn decide(&self, limits: &Inner, permits: u32) -> Result<Decision, Rejection> {
        self.ask(limits, permits, true).await
    }

    /// What [`decide`](Self::decide) would say, without taking anything.
    pub(crate) async fn peek(&self, limits: &Inner) -> Result<Decision, Rejection> {
        self.ask(limits, 1, false).await
    }

    async fn ask(&self, limits: &Inner, permits: u32, take: bool) -> Result<Decision, Rejection> {
        let rule = self.rule(limits);
        let numbers = rule.numbers.as_ref().map_err(|missing| self.not_configured(*missing))?;
        if let Some(problem) = &limits.broken {
            return Err(self
                .rejection(Reason::StoreMisconfigured)
                .with_detail(Arc::clone(problem)));
        }
        if !numbers.effective.enabled.value {
            return Ok(unlimited(limits, numbers.config));
        }
        if permits == 0 {
            return Err(self.rejection(Reason::InvalidPermits).with_detail("0; ask for 1 or more"));
        }
        let in_force = self.in_force();
        let capacity = numbers.config.rate.max(in_force.map_or(0, |in_force| in_force.rate));
        if u64::from(permits) > capacity && !numbers.follow {
            return Err(self.too_many(permits, numbers.config));
        }

        // A failure closes the way to the store, so nobody waits here for longer than one deadline.
        let states = !numbers.follow && !rule.is_stated();
        let _stating = if states { Some(self.stating.lock().await) } else { None };
        let request = Request::new(&self.keys, numbers.config, rule.since)
            .permits(permits)
            .revision(limits.revision())
            .assertion(assertion(&rule, numbers));
        if in_force.unwrap_or(numbers.config).mode == Mode::PerClient {
            let degraded = !self.look(limits, &rule, &request).await;
            // The look may have found that the store counts again.
            if self.in_force().unwrap_or(numbers.config).mode == Mode::PerClient {
                return self.decide_here(limits, &request, take, degraded);
            }
        }
        let answer = if take {
            limits.store.acquire(&request).await
        } else {
            limits.store.peek(&request).await
        };
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => return self.without_store(limits, numbers, &request, take, &error),
        };
        if take {
            self.observe(limits, &rule, &reply);
        }
        match reply.outcome {
            Outcome::PerClient => self.decide_here(limits, &request, take, false),
            Outcome::Unknown => Err(self.unknown()),
            _ => self.settle(&reply, permits, false),
        }
    }

    /// Looks at the stored configuration now and then; false when it could not.
    async fn look(&self, limits: &Inner, rule: &Rule, request: &Request<'_>) -> bool {
        let now = limits.clock.now_ms();
        let looked = self.looked_ms.load(Ordering::Acquire);
        let due = request.assertion != Assertion::Steady || now >= looked + LOOK_EVERY_MS;
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

    pub(super) fn settle(
        &self,
        reply: &Reply,
        permits: u32,
        degraded: bool,
    ) -> Result<Decision, Rejection> {
        let quota = Quota::stored(reply.config.rate, reply.config.per_ms);
        let allowed = match reply.outcome {
            Outcome::Granted => true,
            Outcome::Refused => false,
            Outcome::ExceedsCapacity | Outcome::PerClient | Outcome::Unknown => {
                return Err(self.too_many(permits, reply.config));
            }
        };
        Ok(Decision {
            allowed,
            remaining: reply.remaining,
            retry_after: (!allowed).then(|| Duration::from_millis(reply.retry_after_ms)),
            reset_after: Duration::from_millis(reply.reset_after_ms),
            quota,
            degraded,
            at: UNIX_EPOCH + Duration::from_millis(reply.now_ms),
        })
    }

    /// Takes note of what the store says is in force, and tells of what it did.
    fn observe(&self, limits: &Inner, rule: &Rule, reply: &Reply) {
        if reply.outcome != Outcome::Unknown {
            rule.state();
        }
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let overtaken = in_force.has_overtaken(reply);
        let before = in_force.config;
        if !overtaken {
            let config = (reply.outcome != Outcome::Unknown).then_some(reply.config);
            *in_force = InForce { config, at_ms: reply.now_ms };
        }
        drop(in_force);
        self.complained.store(false, Ordering::Relaxed);
        if reply.ahead_ms > 0 {
            let (limiter, ahead) =
                (Arc::clone(&self.family.key), Duration::from_millis(reply.ahead_ms));
            limits.events.emit(&Event::ClockAhead { limiter, ahead });
        }
        let changed = before.is_none_or(|before| !before.same_limit(&reply.config));
        let outcome = match reply.reconciled {
            // Said once, not with every call that follows.
            Some(Reconciled::Followed) if overtaken || !changed => return,
            Some(outcome) => outcome,
            None => return,
        };
        self.family.tally.reconciled(outcome);
        limits.events.emit(&Event::Reconciled { limiter: Arc::clone(&self.family.key), outcome });
    }

    pub(crate) fn rejection(&self, reason: Reason) -> Rejection {
        Rejection::new(&self.family.key, reason)
    }

    fn too_many(&self, permits: u32, config: Config) -> Rejection {
        let quota = Quota::stored(config.rate, config.per_ms);
        self.rejection(Reason::ExceedsCapacity)
            .with_quota(quota)
            .with_detail(format!("{permits} of {quota}"))
    }
}

fn assertion(rule: &Rule, numbers: &Numbers) -> Assertion {
    if numbers.follow {
        Assertion::Follow { first: !rule.is_stated() }
    } else if rule.is_stated() {
        Assertion::Steady
    } else {
        Assertion::First(numbers.effective.on_drift.value)
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("name", &self.name).finish_non_exhaustive()
    }
}
