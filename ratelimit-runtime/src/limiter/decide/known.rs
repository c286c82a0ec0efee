//! Decisions without the store and without a wait: this process counts the limiter, or has a cached
//! denial.

use std::sync::{Arc, atomic::Ordering};

use ratelimit_spec::{Mode, Wait};

use super::Granted;
use crate::{
    Decision, Reason, Rejection, Settings,
    algorithm::Spent,
    clock::{Counted, whole_ms},
    limiter::{
        Core,
        core::Rule,
        denials::Caller,
        looks::LOOK_EVERY_MS,
        per_process::local_share,
        replies::decision_of,
        services::{ENDED, Services},
        taken::{Answer, Source},
    },
    settings::Family,
    store::{
        AnyStore, Assertion, Config, Heard, MemoryStore, Outcome, Rejects, Reply, Request, Slot,
        StateKeys, Whose,
    },
};

/// Like `Core::spend`, for a limiter of a key template by name: if the embedded store has the
/// limiter's configuration, the limiter need not be cached.
#[inline]
pub(crate) fn spend(limits: &Services, family: &Family, name: &str, permits: u32) -> bool {
    let Some((store, generation)) = counting(limits, family, permits) else { return false };
    let whose = Whose::family(family.number, generation);
    let spent =
        store.with((&limits.key_prefix, name), |cell| cell?.spend(&limits.clock, whose, permits));
    count_spent(family, spent)
}

/// Returns the decision for a caller that needs it, unless the call has to wait or costs too much.
pub(crate) fn decide_by_name(
    limits: &Services,
    family: &Arc<Family>,
    name: &str,
    permits: u32,
    given: Option<&Settings>,
    is_rejected: impl FnOnce(Rejects) -> bool,
) -> Option<Result<Decision, Rejection>> {
    let (store, generation) = counting(limits, family, permits)?;
    let whose = Whose::family(family.number, generation);
    let taken = store.with((&limits.key_prefix, name), |cell| {
        cell.map(|cell| cell.take(&limits.clock, whose, permits))
    });
    let (reply, rejects) = match taken {
        Some(Some(Ok(spent))) => {
            family.count_admitted(spent.is_near_limit());
            return Some(Ok(decision_of(&family.key, &Reply::of_spent(&spent), false, false)));
        }
        Some(taken) => taken?.err()?,
        None => begin(limits, (store, generation), family, name, permits, given)?,
    };
    let decision = || decision_of(&family.key, &reply, false, false);
    match reply.outcome {
        Outcome::Granted => {
            family.count_admitted(reply.config.is_near_limit(reply.remaining));
            Some(Ok(decision()))
        }
        Outcome::Refused if is_rejected(rejects) => {
            let rejection = Rejection::refused(Reason::Limited, decision());
            family.count_rejected(&limits.events, &rejection);
            Some(Err(rejection))
        }
        _ => None,
    }
}

/// Returns the embedded store, if it counts limiters by name, and the reading of the limits that applies.
#[inline]
fn counting<'a>(
    limits: &'a Services,
    family: &Family,
    permits: u32,
) -> Option<(&'a MemoryStore, u64)> {
    let AnyStore::Memory(store) = &limits.store else { return None };
    let generation = limits.generation();
    let counts = permits > 0 && generation != ENDED && family.places.are_unbounded(generation);
    counts.then_some((store, generation))
}

/// Takes permits of a limiter that is used for the first time and has no settings of its own: only
/// its state is stored.
#[cold]
fn begin(
    limits: &Services,
    (store, generation): (&MemoryStore, u64),
    family: &Arc<Family>,
    name: &str,
    permits: u32,
    given: Option<&Settings>,
) -> Option<(Reply, Rejects)> {
    store.health().ok()?;
    let rule = Rule::common(limits, family, name, given)?;
    let numbers = rule.numbers.as_ref().ok()?;
    let counted = numbers.config.mode == Mode::Overall && !numbers.follow;
    let is_plain = rule.penalty().is_none() && !rule.is_shadowed();
    // What `Core::ready` answers without counting.
    let is_answered = limits.broken.is_some() || !numbers.effective.set.enabled();
    if !counted || rule.generation != generation || !is_plain || is_answered {
        return None;
    }
    let keys = StateKeys::new([&*limits.key_prefix, name].concat());
    let request = Request::new(&keys, numbers.config, rule.since)
        .revision(limits.revision())
        .assertion(Assertion::First(numbers.effective.set.on_drift()));
    let lease = |now| rule.lease(family, numbers.config, now + LOOK_EVERY_MS);
    let (reply, rejects) = store.begin(&request, permits, lease)?;
    limits.crowd.grow(&limits.engine);
    if let Some(outcome) = reply.reconciled {
        family.count_reconciled(outcome);
    }
    Some((reply, rejects))
}

/// Counts a call that took permits, and whether it left little.
#[inline]
fn count_spent(family: &Family, is_near_limit: Option<bool>) -> bool {
    if let Some(is_near_limit) = is_near_limit {
        family.count_admitted(is_near_limit);
    }
    is_near_limit.is_some()
}

impl Core {
    /// Returns what counts the limiter, if permits are allotted to calls that do not lock it.
    #[inline(always)]
    pub(crate) fn allotting(&self) -> Option<&Slot> {
        self.stored.get().map(|slot| &**slot).filter(|slot| slot.allots())
    }

    /// Takes permits of an allotment for a call that does not hold them.
    #[inline(always)]
    pub(crate) fn spend_allotted(
        &self,
        limits: &Services,
        slot: &Slot,
        permits: u64,
        counted: Counted,
    ) -> bool {
        let (rule, generation) = (self.rule_number.load(Ordering::Acquire), limits.generation());
        // Few limiters have a budget of this process, which comes first. Limits that ended allot nothing.
        let own = self.made().and_then(|rare| rare.own.get());
        if own.is_none()
            && self.queue.is_empty()
            && let Some(now) = limits.clock.at(counted)
            && slot.spend_allotted(now, Whose::rule(rule, generation), permits)
        {
            self.family.count_admitted(false);
            return true;
        }
        false
    }

    /// Takes permits for a call that does not hold them, if this process counts the limiter and
    /// they are free.
    #[inline]
    pub(crate) fn spend(&self, limits: &Services, permits: u32) -> bool {
        let (rule, generation) = (self.rule_number.load(Ordering::Acquire), limits.generation());
        if !self.queue.is_empty() || permits == 0 || generation == ENDED {
            return false;
        }
        let (clock, whose) = (&limits.clock, Whose::rule(rule, generation));
        let own = self.made().and_then(|rare| rare.own.get());
        let spent = own
            .and_then(|own| own.spend(clock, whose, permits))
            .or_else(|| self.stored.get()?.spend(clock, whose, permits));
        count_spent(&self.family, spent)
    }

    /// Decides a call that needs neither the store nor a wait. In shadow mode the answer may be a
    /// rejection.
    #[inline]
    pub(crate) fn acquire_at_once(
        &self,
        limits: &Services,
        permits: u32,
        wait: impl FnOnce() -> Wait,
    ) -> Option<Result<(Answer, Source), Rejection>> {
        // No caller overtakes waiting callers.
        if !self.queue.is_empty() || permits == 0 {
            return None;
        }
        let (rule, generation) = (self.rule_number.load(Ordering::Acquire), limits.generation());
        if generation == ENDED {
            return None;
        }
        let refusal = match self.take_here(limits, (rule, generation), permits) {
            Some((Ok(spent), source)) => {
                self.family.count_admitted(spent.is_near_limit());
                return Some(Ok((Answer::Spent(spent), source)));
            }
            Some((Err(reply), source)) => match reply.outcome {
                // The rule in use made this decision; no reload is pending.
                Outcome::Refused if !self.shadowed.load(Ordering::Acquire) => reply.into(),
                Outcome::Granted | Outcome::Refused => {
                    if reply.outcome == Outcome::Refused {
                        self.note_shadowed(limits, || self.refusal(&reply.into()));
                    }
                    self.count_granted(&reply);
                    return Some(Ok((Answer::Reply(reply, 0), source)));
                }
                // The cost exceeds the capacity.
                _ => return None,
            },
            None => self.known_refusal(rule, generation, permits)?,
        };
        (wait() == Wait::None).then(|| Err(self.refuse(limits, &refusal)))
    }

    /// Returns the decision for the reply to such a call.
    pub(in crate::limiter) fn decided(&self, reply: &Reply) -> Decision {
        let decision = self.decision_of(reply, false);
        if reply.outcome == Outcome::Granted { decision } else { decision.in_shadow() }
    }

    /// Takes permits if this process counts the limiter; returns what is left, or else the reply.
    #[inline]
    fn take_here(
        &self,
        limits: &Services,
        (rule, generation): (u64, u64),
        permits: u32,
    ) -> Option<(Result<Spent, Reply>, Source)> {
        let own = self.made().and_then(|rare| rare.own.get());
        [(own, Source::Process), (self.stored.get(), Source::Store)].into_iter().find_map(
            |(slot, source)| {
                let whose = Whose::rule(rule, generation);
                let taken = slot?.take(&limits.clock, whose, permits)?;
                Some((taken.map_err(|(reply, _)| reply), source))
            },
        )
    }

    /// Returns the denial that the store would repeat.
    fn known_refusal(&self, rule: u64, generation: u64, permits: u32) -> Option<Heard> {
        if !self.denials.has_any() || self.shadowed.load(Ordering::Acquire) {
            return None;
        }
        let known = self.rule.load();
        // A reload that no call has noticed yet may change it; with a penalty each rejection counts.
        if known.number != rule || known.generation != generation || known.penalty().is_some() {
            return None;
        }
        self.denials.repeated(permits, Caller::Polling)
    }

    /// A separate function, so that a call that is granted immediately does not pay for it.
    #[inline(never)]
    fn refuse(&self, limits: &Services, heard: &Heard) -> Rejection {
        let rejection = self.refusal(heard);
        self.count_rejected(limits, &rejection);
        rejection
    }

    fn refusal(&self, heard: &Heard) -> Rejection {
        Rejection::refused(Reason::Limited, self.decision(heard, false))
    }

    /// Counts a call if the policy decided it.
    pub(in crate::limiter) fn count_if_degraded(&self, decision: &Decision) {
        if decision.degraded {
            self.count_degraded();
        }
    }

    /// Counts a decision of the policy, or a settlement that the store did not receive.
    pub(in crate::limiter) fn count_degraded(&self) {
        let row = self.family.row();
        row.tally.degraded.fetch_add(1, Ordering::Relaxed);
        row.measured.degraded();
    }

    /// Counts a call that a reply admitted.
    #[inline]
    pub(in crate::limiter) fn count_granted(&self, reply: &Reply) {
        self.family.count_admitted(reply.config.is_near_limit(reply.remaining));
    }

    /// Counts an admitted call, and reports it if only shadow mode admits it. It may have tried several times.
    pub(in crate::limiter) fn count_admitted(&self, limits: &Services, granted: Option<&Granted>) {
        if let Some(rejection) = granted.and_then(|granted| granted.overruled.as_ref()) {
            self.note_shadowed(limits, || rejection.clone());
        }
        // A call that was admitted without counting is close to no limit.
        let mut parts = granted.into_iter().flat_map(|granted| granted.decision.parts());
        let is_near = parts.any(|part| self.is_near_limit(limits, part));
        self.family.count_admitted(is_near);
    }

    /// Returns whether one limit has little left of what it was counted from.
    fn is_near_limit(&self, limits: &Services, decision: &Decision) -> bool {
        let Some(quota) = decision.quota else { return false };
        // Of shards, what remains is that of the one that decided. All have as much, or one permit less.
        let shard = self.rule.load().shards().and_then(|shards| shards[0].in_force());
        let whole = shard.unwrap_or_else(|| {
            Config::new(quota.rate(), whole_ms(quota.per()), Mode::Overall).rule(quota.rule())
        });
        // Without the store, it is that of this process's share.
        let counted = if decision.degraded { local_share(limits, whole) } else { whole };
        counted.is_near_limit(decision.remaining)
    }

    pub(in crate::limiter) fn count_rejected(&self, limits: &Services, rejection: &Rejection) {
        self.family.count_rejected(&limits.events, rejection);
    }
}
