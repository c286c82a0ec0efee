//! Decisions that need neither the store nor a wait: this process counts the limiter, or knows what the
//! store would reply.

use std::sync::{Arc, atomic::Ordering};

use ratelimit_spec::Wait;

use crate::{
    Answer, Decision, Reason, Rejection,
    limiter::{
        Core,
        denials::Caller,
        replies::answer_of,
        services::{ENDED, Services},
        taken::Source,
    },
    settings::Family,
    store::{AnyStore, Outcome, Rejects, Reply, Slot, Whose},
};

/// The same for a limiter of a family, by its name: where the embedded store knows what a limiter goes by,
/// it need not be remembered.
#[inline]
pub(crate) fn spend(limits: &Services, family: &Family, name: &str, permits: u32) -> bool {
    let spent = by_name(limits, family, name, permits, |slot, whose, generation| {
        slot.spend(&limits.clock, whose, generation, permits)
    });
    count_spent(family, spent)
}

/// The decision for a caller that needs it, unless the call has to wait or costs too much.
pub(crate) fn decide_by_name(
    limits: &Services,
    family: &Family,
    name: &str,
    permits: u32,
    is_rejected: impl FnOnce(Rejects) -> bool,
) -> Option<Result<Decision, Rejection>> {
    let (reply, rejects) = by_name(limits, family, name, permits, |slot, whose, generation| {
        slot.take(&limits.clock, whose, generation, permits)
    })?;
    let answer = answer_of(&reply, false);
    match reply.outcome {
        Outcome::Granted => {
            count_spent(family, Some((reply.remaining, reply.config.capacity())));
            Some(Ok(answer.decision(&family.key)))
        }
        Outcome::Refused if is_rejected(rejects) => {
            let rejection = answer.rejection(Reason::Limited, &family.key);
            count_rejected(limits, family, &rejection);
            Some(Err(rejection))
        }
        _ => None,
    }
}

/// Takes permits where the embedded store counts a limiter, by its name.
#[inline]
fn by_name<T>(
    limits: &Services,
    family: &Family,
    name: &str,
    permits: u32,
    take: impl FnOnce(&Slot, Whose, u64) -> Option<T>,
) -> Option<T> {
    let AnyStore::Memory(store) = &limits.store else { return None };
    let (name, generation) = ((&*limits.key_prefix, name), limits.generation());
    if permits == 0 || generation == ENDED || !family.places.are_unbounded(generation) {
        return None;
    }
    store.with(name, |slot| take(slot, Whose::Family(family.number), generation))
}

/// Counts a call that took permits, of which so many are left of so many.
#[inline]
fn count_spent(family: &Family, spent: Option<(u64, u64)>) -> bool {
    if let Some((left, capacity)) = spent {
        family.tally.allowed.fetch_add(1, Ordering::Relaxed);
        family.measured.admitted(left, capacity);
    }
    spent.is_some()
}

fn count_rejected(limits: &Services, family: &Family, rejection: &Rejection) {
    let tally = &family.tally;
    tally.rejected.fetch_add(1, Ordering::Relaxed);
    limits.events.rejected(&tally.unreported, rejection);
    family.measured.rejected(rejection.reason());
}

impl Core {
    /// Takes permits for a call that keeps nothing of them, if this process counts the limiter and they are
    /// free.
    #[inline]
    pub(crate) fn spend(&self, limits: &Services, permits: u32) -> bool {
        let (rule, generation) = (self.rule_number.load(Ordering::Acquire), limits.generation());
        if !self.queue.is_empty() || permits == 0 || generation == ENDED {
            return false;
        }
        let spend =
            |slot: &Arc<Slot>| slot.spend(&limits.clock, Whose::Rule(rule), generation, permits);
        let own = self.made().and_then(|rare| rare.own.get()).and_then(spend);
        let spent = own.or_else(|| self.stored.get().and_then(spend));
        count_spent(&self.family, spent)
    }

    /// The whole of a call that needs neither the store nor a wait. In shadow mode the reply may be a
    /// refusal.
    pub(crate) fn acquire_at_once(
        &self,
        limits: &Services,
        permits: u32,
        wait: impl FnOnce() -> Wait,
    ) -> Option<Result<(Reply, Source), Rejection>> {
        // No caller overtakes those that wait.
        if !self.queue.is_empty() || permits == 0 {
            return None;
        }
        let (reply, source) = self.at_once(limits, permits)?;
        let result = match reply.outcome {
            Outcome::Granted => Ok((reply, source)),
            // The rule in use is the one that decided this; no reload is behind it.
            Outcome::Refused if self.shadowed.load(Ordering::Acquire) => {
                self.note_shadowed(limits, || self.rejected_at_once(&reply, permits));
                Ok((reply, source))
            }
            Outcome::Refused if wait() == Wait::None => Err(self.rejected_at_once(&reply, permits)),
            // The call waits, or costs more than the capacity.
            _ => return None,
        };
        match &result {
            Ok((reply, _)) => self.count_granted(reply),
            Err(rejection) => self.count_rejected(limits, rejection),
        }
        Some(result)
    }

    /// The answer to such a call.
    pub(crate) fn answered(&self, reply: &Reply, permits: u32) -> Answer {
        // The lists of several limits are those of a refusal.
        if reply.outcome == Outcome::Granted {
            return answer_of(reply, false);
        }
        self.answer(&(*reply).into(), permits, false).in_shadow()
    }

    fn at_once(&self, limits: &Services, permits: u32) -> Option<(Reply, Source)> {
        let (rule, generation) = (self.rule_number.load(Ordering::Acquire), limits.generation());
        if generation == ENDED {
            return None;
        }
        let own = self.made().and_then(|rare| rare.own.get());
        for (slot, source) in [(own, Source::Process), (self.stored.get(), Source::Store)] {
            let whose = Whose::Rule(rule);
            let reply = slot.and_then(|slot| slot.take(&limits.clock, whose, generation, permits));
            if let Some((reply, _)) = reply {
                return Some((reply, source));
            }
        }
        if self.shadowed.load(Ordering::Acquire) {
            return None;
        }
        let reply = self.denials.repeated(permits, Caller::Polling)?;
        // A reload that no call has noticed yet may change it; with a penalty it counts.
        let known = self.rule(limits);
        (known.number == rule && known.penalty().is_none()).then_some((reply, Source::Store))
    }

    /// Kept out of the way of a call that is granted at once.
    #[inline(never)]
    fn rejected_at_once(&self, reply: &Reply, permits: u32) -> Rejection {
        self.refused(Reason::Limited, &self.answer(&(*reply).into(), permits, false))
    }

    /// The policy decided, or the store did not get what was given back.
    pub(in crate::limiter) fn count_degraded(&self) {
        self.family.tally.degraded.fetch_add(1, Ordering::Relaxed);
        self.family.measured.degraded();
    }

    /// A call was admitted by a reply.
    #[inline]
    pub(in crate::limiter) fn count_granted(&self, reply: &Reply) {
        self.family.tally.allowed.fetch_add(1, Ordering::Relaxed);
        self.family.measured.admitted(reply.remaining, reply.config.capacity());
    }

    /// A call was admitted.
    pub(in crate::limiter) fn count_admitted(&self, answer: Option<&Answer>) {
        self.family.tally.allowed.fetch_add(1, Ordering::Relaxed);
        // A call that went ahead without a decision is near no limit.
        let (remaining, capacity) = answer.map_or((u64::MAX, u64::MAX), |answer| {
            (answer.remaining, answer.quota.burst().unwrap_or(answer.quota.rate()))
        });
        self.family.measured.admitted(remaining, capacity);
    }

    pub(in crate::limiter) fn count_rejected(&self, limits: &Services, rejection: &Rejection) {
        count_rejected(limits, &self.family, rejection);
    }
}
