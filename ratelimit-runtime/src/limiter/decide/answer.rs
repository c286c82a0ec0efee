//! Builds decisions and rejections from the replies of a store.

use std::{
    iter,
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{Granted, Why};
use crate::{
    Decision, Quota, Quotas, Reason, Rejection, StoreError,
    events::Event,
    limiter::{
        core::{Core, Numbers, Rule},
        plan::Part,
        replies::{bit, combined, decision_of, parts_of},
        services::Services,
    },
    settings::Unresolved,
    store::{Config, Heard, Outcome, Reply},
};

/// The time without a call that only shadow mode admits after which the next one is reported, in milliseconds.
const QUIET_MS: u64 = 60_000;

/// Whether a decision needs counting.
pub(in crate::limiter) enum Ready<'a> {
    Decided(Decision),
    /// With the number of permits, which fits in a request.
    Ask(&'a Numbers, u32),
}

impl Why {
    /// Returns when the permits will be free, if that is known.
    pub(in crate::limiter) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NotNow(refusal) => refusal.retry_after,
            Self::Rejected(_) => None,
        }
    }

    /// Returns the rejection that lets a call proceed sooner.
    pub(super) fn sooner(self, other: Self) -> Self {
        let wait = |why: &Self| match why {
            Self::NotNow(refusal) => refusal.retry_after.unwrap_or(Duration::MAX),
            Self::Rejected(_) => Duration::MAX,
        };
        match (&self, &other) {
            (Self::Rejected(_), Self::NotNow(_)) => other,
            _ if wait(&other) < wait(&self) => other,
            _ => self,
        }
    }
}

impl Core {
    /// Handles cases that need no counting.
    pub(in crate::limiter) fn ready<'a>(
        &self,
        limits: &Services,
        rule: &'a Rule,
        permits: u64,
    ) -> Result<Ready<'a>, Rejection> {
        self.ready_if(limits, rule, permits, || self.may_have_grown(limits))
    }

    /// The same, but a cost above the known capacity is rejected unless the store `is_asked` about it.
    pub(in crate::limiter) fn ready_if<'a>(
        &self,
        limits: &Services,
        rule: &'a Rule,
        permits: u64,
        is_asked: impl FnOnce() -> bool,
    ) -> Result<Ready<'a>, Rejection> {
        let numbers = rule.numbers.as_ref().map_err(|why| self.not_configured(why))?;
        if let Some(problem) = &limits.broken {
            let rejection = self.rejection(Reason::StoreMisconfigured);
            return Err(rejection.with_detail(problem.to_string()));
        }
        if !numbers.effective.set.enabled() {
            return Ok(Ready::Decided(Decision {
                quota: None,
                remaining: u64::MAX,
                parts: None,
                ..self.unlimited(limits)
            }));
        }
        if permits == 0 {
            return Ok(Ready::Decided(self.unlimited(limits)));
        }
        if limits.is_shut_down() {
            return Err(self.ended());
        }
        let itself = Part { core: self, rule, numbers };
        let short = if permits > self.most_at_once(rule, numbers) && !numbers.follow {
            Some(itself)
        } else if rule.is_joint() {
            let short = |part: &Part<'_>| {
                permits > part.numbers.config.capacity().max(part.in_force().capacity())
            };
            self.each_part(rule).find(short)
        } else {
            None
        };
        if let Some(part) = short.filter(|_| !is_asked()) {
            return Err(match rule.shards() {
                Some(shards) => self.too_many_in_each(permits, shards.len()),
                None => self.too_many(permits, part.in_force()),
            });
        }
        match u32::try_from(permits) {
            Ok(count) => Ok(Ready::Ask(numbers, count)),
            Err(_) if itself.known().is_none() => Err(self.too_many_for_a_call(permits)),
            Err(_) => Err(self.too_many(permits, itself.in_force())),
        }
    }

    /// Returns whether the store is asked about a cost above the known capacity, because the quota may have been raised
    /// by another process or before this limiter was evicted from the cache, or another process has yet to learn this
    /// one: once a second, so that such calls remain cheap.
    fn may_have_grown(&self, limits: &Services) -> bool {
        const EVERY_MS: u64 = 1_000;
        if limits.store.health().is_err() {
            return false;
        }
        let (now, due) = (limits.clock.now_ms(), &self.rare().may_have_grown_ms);
        let known = due.load(Ordering::Acquire);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        now >= known && due.compare_exchange(known, now + EVERY_MS, success, failure).is_ok()
    }

    /// Returns the most permits that one request can get, as far as this process knows.
    fn most_at_once(&self, rule: &Rule, numbers: &Numbers) -> u64 {
        let known = self.in_force().map_or(0, |config| config.capacity());
        let most = numbers.config.capacity().max(known);
        rule.shards().map_or(most, |shards| most / shards.len() as u64)
    }

    /// Combines the replies of all limits of the key. A process that counts its share itself is still limited by the
    /// quotas of all processes.
    pub(super) fn heard(&self, rule: &Rule, each: &[Reply], degraded: bool) -> Heard {
        if !degraded {
            return combined(each);
        }
        let whole = |(reply, part): (&Reply, Part<'_>)| Reply { config: part.in_force(), ..*reply };
        let each: Vec<_> = each.iter().zip(self.each_part(rule)).map(whole).collect();
        combined(&each)
    }

    /// Builds the decision on a request from the store's replies for all limits of the key.
    pub(in crate::limiter) fn decision(&self, heard: &Heard, degraded: bool) -> Decision {
        let Heard { reply, parts } = heard;
        let decision = self.decision_of(reply, degraded);
        let Some(parts) = parts else { return decision };
        let several = reply.outcome != Outcome::Granted && reply.violated != 0;
        let decision = Decision {
            violated: several.then(|| self.violated(reply)),
            parts: Some(parts_of(parts, |reply| self.decision_of(reply, degraded))),
            ..decision
        };
        match reply.outcome {
            Outcome::Blocked => decision.blocked_for(Duration::from_millis(reply.retry_after_ms)),
            _ => decision,
        }
    }

    /// Builds the decision of one limit from its reply.
    pub(super) fn decision_of(&self, reply: &Reply, degraded: bool) -> Decision {
        let shadow = self.shadowed.load(Ordering::Acquire);
        decision_of(&self.family.key, reply, degraded, shadow)
    }

    /// Returns the limits that rejected a request.
    #[cold]
    fn violated(&self, reply: &Reply) -> Arc<[Quota]> {
        let rule = self.rule.load();
        let violated =
            self.each_part(&rule).enumerate().filter(|(n, _)| reply.violated & bit(*n) != 0);
        violated.map(|(_, part)| part.in_force().quota()).collect()
    }

    /// Returns why a request was rejected, from its reply.
    pub(in crate::limiter) fn refused_by(
        &self,
        heard: &Heard,
        permits: u32,
        degraded: bool,
    ) -> Why {
        match heard.reply.outcome {
            Outcome::ExceedsCapacity => Why::Rejected(self.too_many(permits, heard.reply.config)),
            Outcome::Unknown => Why::Rejected(self.unknown()),
            _ => Why::NotNow(Box::new(self.decision(heard, degraded))),
        }
    }

    pub(crate) fn rejection(&self, reason: Reason) -> Rejection {
        Rejection::new(&self.family.key, reason)
    }

    pub(in crate::limiter) fn too_many(
        &self,
        permits: impl Into<u64>,
        config: Config,
    ) -> Rejection {
        let (permits, quota) = (permits.into(), config.quota());
        let rule = self.rule.load();
        let parts = self.each_part(&rule).map(|part| part.in_force());
        let exceeded = parts.filter(|part| rule.is_joint() && permits > part.capacity());
        let exceeded: Arc<[Quota]> = exceeded.map(|part| part.quota()).collect();
        let violated = (exceeded.len() > 1).then_some(exceeded);
        let shown =
            violated.as_deref().map_or(Quotas::from(quota), |all| Quotas::stored(all.into()));
        let limits = Decision { quota: Some(quota), violated, ..self.uncounted(UNIX_EPOCH) };
        Rejection::refused(Reason::ExceedsCapacity, limits)
            .with_detail(format!("requested {permits}, quota {shown}"))
    }

    /// Returns the rejection of a request that no quota can ever grant; the store's is not known yet.
    fn too_many_for_a_call(&self, permits: u64) -> Rejection {
        Rejection::refused(Reason::ExceedsCapacity, self.uncounted(UNIX_EPOCH)).with_detail(
            format!("requested {permits}, and a call can request {} at most", u32::MAX),
        )
    }

    /// Returns the rejection of a request that no shard can ever grant. Another process may have raised the quota.
    pub(super) async fn too_many_of_shards(
        &self,
        limits: &Services,
        rule: &Rule,
        permits: u64,
    ) -> Option<Rejection> {
        let (shards, numbers) = (rule.shards()?, rule.numbers.as_ref().ok()?);
        if permits > self.most_at_once(rule, numbers) {
            for shard in shards.iter() {
                shard.hear_stored(limits).await;
            }
        }
        let exceeds = permits > self.most_at_once(rule, numbers);
        exceeds.then(|| self.too_many_in_each(permits, shards.len()))
    }

    /// Reads the stored configuration, if the store is available.
    async fn hear_stored(&self, limits: &Services) {
        let rule = self.rule(limits);
        for part in self.parts(&rule) {
            if let Ok(reply) = limits.store.peek(&part.request(limits), 1).await {
                part.core.hear(part.rule, &reply);
            }
        }
    }

    fn too_many_in_each(&self, permits: u64, shards: usize) -> Rejection {
        let limits = self.uncounted(UNIX_EPOCH);
        let quota = limits.quota.map(|quota| quota.to_string()).unwrap_or_default();
        Rejection::refused(Reason::ExceedsCapacity, limits)
            .with_detail(format!("requested {permits}, quota {quota} in {shards} shards"))
    }

    /// Converts the decision of a shard to that of the whole limiter.
    pub(super) fn of_whole(&self, decision: Decision) -> Decision {
        Decision { quota: self.in_force().map(|config| config.quota()), ..decision }
    }

    /// Converts the reason for which all shards rejected a request to that of the whole limiter.
    pub(super) fn of_all_shards(&self, why: Why, permits: u64, shards: usize) -> Why {
        match why {
            Why::NotNow(refusal) => Why::NotNow(Box::new(self.of_whole(*refusal))),
            Why::Rejected(rejection) if rejection.reason() == Reason::ExceedsCapacity => {
                Why::Rejected(self.too_many_in_each(permits, shards))
            }
            rejected @ Why::Rejected(_) => rejected,
        }
    }

    pub(in crate::limiter) fn unknown(&self) -> Rejection {
        self.rejection(Reason::NotConfigured)
            .with_detail("neither this process nor the store configures one")
    }

    pub(in crate::limiter) fn not_configured(&self, why: &Unresolved) -> Rejection {
        self.rejection(Reason::NotConfigured).with_detail(match why {
            Unresolved::Missing(what) => {
                format!("no `{what}` in the attribute or the limits file")
            }
            several @ Unresolved::Several(_) => several.complaint(&self.family.key),
        })
    }

    /// Builds the rejection of a request that was not made, because other callers wait ahead of it.
    pub(in crate::limiter) fn not_before(
        &self,
        limits: &Services,
        reason: Reason,
        ms: u64,
    ) -> Rejection {
        let rejection = Rejection::refused(reason, self.uncounted(UNIX_EPOCH));
        let rejection = rejection.with_retry_after(Some(Duration::from_millis(ms)));
        match self.blocked_ms(limits) {
            block_ms if block_ms > 0 && reason != Reason::QueueFull => {
                rejection.blocked_for(Duration::from_millis(block_ms))
            }
            _ => rejection,
        }
    }

    /// Returns the result of a request that only shadow mode admits; `None` if the limiter is enforced, or no
    /// limit rejected the request.
    pub(super) fn shadowed(
        self: &Arc<Self>,
        limits: &Services,
        rule: &Rule,
        why: &Why,
    ) -> Option<Granted> {
        let decision = self.in_shadow(limits, rule, why)?;
        let overruled = Some(match why {
            Why::NotNow(refusal) => Rejection::refused(Reason::Limited, (**refusal).clone()),
            Why::Rejected(rejection) => rejection.clone(),
        });
        Some(Granted { overruled, ..Granted::free(self, decision) })
    }

    /// Counts a call that only shadow mode admits, and reports the first one after a quiet period.
    pub(super) fn note_shadowed(&self, limits: &Services, rejection: impl FnOnce() -> Rejection) {
        let row = self.family.row();
        let tally = &row.tally;
        tally.shadowed.fetch_add(1, Ordering::Relaxed);
        row.measured.shadowed();
        let now = limits.clock.now_ms();
        let quiet_until = tally.quiet_until_ms.swap(now + QUIET_MS, Ordering::Relaxed);
        if now >= quiet_until {
            limits.events.emit(&Event::WouldReject { rejection: rejection() });
        }
    }

    /// Returns the decision of such a result.
    pub(super) fn in_shadow(&self, limits: &Services, rule: &Rule, why: &Why) -> Option<Decision> {
        if !rule.is_shadowed() {
            return None;
        }
        let rejection = match why {
            Why::NotNow(refusal) => return Some((**refusal).clone().in_shadow()),
            Why::Rejected(rejection) => rejection,
        };
        let reason = rejection.reason();
        if !matches!(reason, Reason::ExceedsCapacity | Reason::StoreUnavailable) {
            return None;
        }
        let unlimited = self.unlimited(limits);
        Some(Decision {
            shadowed: Some(reason),
            remaining: 0,
            retry_after: rejection.retry_after(),
            quota: rejection.quota().or(unlimited.quota),
            degraded: reason == Reason::StoreUnavailable,
            ..unlimited
        })
    }

    /// Builds the rejection of a call after the limits were shut down.
    pub(in crate::limiter) fn ended(&self) -> Rejection {
        self.rejection(Reason::StoreUnavailable).with_source(&StoreError::shut_down())
    }

    /// Admits a call without counting it.
    pub(in crate::limiter) fn unlimited(&self, limits: &Services) -> Decision {
        self.uncounted(UNIX_EPOCH + Duration::from_millis(limits.clock.now_ms()))
    }

    /// Creates the decision on a call that no limit of the key counted, with the known quotas.
    fn uncounted(&self, at: SystemTime) -> Decision {
        let rule = self.rule.load();
        let of = |config: Config| Decision {
            remaining: config.rate,
            quota: Some(config.quota()),
            ..Decision::uncounted(Arc::clone(&self.family.key), at)
        };
        let mut known = self.each_part(&rule).filter_map(|part| part.known()).map(of);
        let Some(first) = known.next() else {
            return Decision::uncounted(Arc::clone(&self.family.key), at);
        };
        if !rule.is_joint() {
            return first;
        }
        let parts: Arc<[Decision]> = iter::once(first.clone()).chain(known).collect();
        let remaining = parts.iter().map(|part| part.remaining).fold(first.remaining, u64::min);
        Decision { remaining, parts: Some(parts), ..first }
    }
}
