//! What a call is told: answers and rejections made of what a store replied.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use super::{Why, combine::bit};
use crate::{
    Quota, Reason, Rejection,
    decision::Answer,
    events::Event,
    limiter::{Core, Numbers, numbers::Rule},
    limits::Inner,
    settings::Unresolved,
    store::{Config, Outcome, Reply},
};

/// How long a shadowed limiter has to refuse no call until the next such event, in milliseconds.
const QUIET_MS: u64 = 60_000;

/// Whether a decision needs to be counted.
pub(in crate::limiter) enum Ready<'a> {
    Decided(Answer),
    Ask(&'a Numbers),
}

impl Why {
    /// The one of two refusals that lets a call go sooner.
    pub(super) fn sooner(self, other: Self) -> Self {
        let wait = |why: &Self| match why {
            Self::NotNow(answer) => answer.retry_after.unwrap_or(Duration::MAX),
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
    /// Returns what can be said before anything is counted.
    pub(in crate::limiter) fn ready<'a>(
        &self,
        limits: &Inner,
        rule: &'a Rule,
        permits: u32,
    ) -> Result<Ready<'a>, Rejection> {
        let numbers = rule.numbers.as_ref().map_err(|why| self.not_configured(why))?;
        if let Some(problem) = &limits.broken {
            let rejection = self.rejection(Reason::StoreMisconfigured);
            return Err(rejection.with_detail(Arc::clone(problem)));
        }
        if !numbers.effective.enabled.value {
            let unlimited = unlimited(limits, numbers.config);
            return Ok(Ready::Decided(Answer { off: true, ..unlimited }));
        }
        if permits == 0 {
            let known = self.in_force().unwrap_or(numbers.config);
            return Ok(Ready::Decided(unlimited(limits, known)));
        }
        let known = self.in_force().map_or(0, |config| config.capacity());
        if u64::from(permits) > numbers.config.capacity().max(known) && !numbers.follow {
            return Err(self.too_many(permits, numbers.config));
        }
        if rule.is_joint() {
            let capacity = |config: Config| config.capacity();
            let short = |part: &crate::limiter::plan::Part<'_>| {
                u64::from(permits) > capacity(part.numbers.config).max(capacity(part.in_force()))
            };
            if let Some(part) = self.parts(rule).into_iter().find(short) {
                return Err(self.too_many(permits, part.numbers.config));
            }
        }
        Ok(Ready::Ask(numbers))
    }

    /// The answer to a request, by the reply to it and those of the key's several limits.
    pub(in crate::limiter) fn answer(&self, reply: &Reply, each: &[Reply], degraded: bool) -> Answer {
        let allowed = reply.outcome == Outcome::Granted;
        Answer {
            allowed,
            shadowed: None,
            remaining: reply.remaining,
            retry_after: (!allowed).then(|| Duration::from_millis(reply.retry_after_ms)),
            reset_after: Duration::from_millis(reply.reset_after_ms),
            quota: reply.config.quota(),
            off: false,
            degraded,
            at: UNIX_EPOCH + Duration::from_millis(reply.now_ms),
            violated: (!allowed && reply.violated != 0).then(|| self.violated(reply)),
            parts: (each.len() > 1).then(|| self.each(each, degraded)),
        }
    }

    /// The answer of each limit, the strictest first.
    #[cold]
    fn each(&self, replies: &[Reply], degraded: bool) -> Arc<[Answer]> {
        let mut order: Vec<&Reply> = replies.iter().collect();
        order.sort_by_key(|reply| std::cmp::Reverse(super::combine::strictness(reply)));
        order.into_iter().map(|reply| self.answer(reply, &[], degraded)).collect()
    }

    /// The limits that refused a request.
    #[cold]
    fn violated(&self, reply: &Reply) -> Arc<[Quota]> {
        let rule = self.rule.load();
        let parts = self.parts(&rule);
        let violated = parts.iter().enumerate().filter(|(n, _)| reply.violated & bit(*n) != 0);
        violated.map(|(_, part)| part.in_force().quota()).collect()
    }

    /// Why a request was refused, by the reply to it.
    pub(in crate::limiter) fn refused_by(
        &self,
        reply: &Reply,
        each: &[Reply],
        permits: u32,
        degraded: bool,
    ) -> Why {
        match reply.outcome {
            Outcome::ExceedsCapacity => Why::Rejected(self.too_many(permits, reply.config)),
            Outcome::Unknown => Why::Rejected(self.unknown()),
            _ => Why::NotNow(self.answer(reply, each, degraded)),
        }
    }

    pub(crate) fn rejection(&self, reason: Reason) -> Rejection {
        Rejection::new(&self.family.key, reason)
    }

    pub(super) fn too_many(&self, permits: u32, config: Config) -> Rejection {
        let quota = config.quota();
        self.rejection(Reason::ExceedsCapacity)
            .with_quota(quota)
            .with_detail(format!("requested {permits}, quota {quota}"))
    }

    pub(in crate::limiter) fn unknown(&self) -> Rejection {
        self.rejection(Reason::NotConfigured)
            .with_detail("neither this process nor the store configures one")
    }

    fn not_configured(&self, why: &Unresolved) -> Rejection {
        self.rejection(Reason::NotConfigured).with_detail(match why {
            Unresolved::Missing(what) => {
                format!("no `{what}` in the attribute or the limits file")
            }
            other => format!("it {}", other.complaint()),
        })
    }

    /// The rejection of a request that the limiter refused.
    pub(in crate::limiter) fn refused(&self, reason: Reason, answer: &Answer) -> Rejection {
        self.rejection(reason)
            .retry_after_some(answer.retry_after)
            .with_quota(answer.quota)
            .with_violated(answer.violated.clone())
            .with_decision(answer.decision(&self.family.key))
    }

    /// The rejection of a request that was not made, because other callers wait before it.
    pub(in crate::limiter) fn not_before(&self, reason: Reason, ms: u64) -> Rejection {
        let rejection = self.rejection(reason).retry_after_some(Some(Duration::from_millis(ms)));
        match self.in_force() {
            Some(config) => rejection.with_quota(config.quota()),
            None => rejection,
        }
    }

    /// The answer to a request that only shadow mode admits, which is counted and reported; `None` if
    /// the limiter is enforced, or no limit refused the request.
    pub(in crate::limiter) fn shadowed(&self, limits: &Inner, rule: &Rule, why: &Why) -> Option<Answer> {
        if !rule.is_shadowed() {
            return None;
        }
        let (answer, rejection) = match why {
            Why::NotNow(answer) => (answer.clone(), self.refused(Reason::Limited, answer)),
            Why::Rejected(rejection) => {
                let reason = rejection.reason();
                if !matches!(reason, Reason::ExceedsCapacity | Reason::StoreUnavailable) {
                    return None;
                }
                let config = self.in_force().or(rule.numbers.as_ref().ok().map(|n| n.config))?;
                let unlimited = unlimited(limits, config);
                let quota = rejection.quota().unwrap_or(unlimited.quota);
                let degraded = reason == Reason::StoreUnavailable;
                let retry_after = rejection.retry_after();
                let answer = Answer { remaining: 0, retry_after, quota, degraded, ..unlimited };
                (answer, rejection.clone())
            }
        };
        let reason = rejection.reason();
        self.would_reject(limits, rejection);
        Some(Answer { allowed: true, shadowed: Some(reason), ..answer })
    }

    /// Counts a call that only shadow mode admitted, and reports the first one after a while without.
    fn would_reject(&self, limits: &Inner, rejection: Rejection) {
        use std::sync::atomic::Ordering;

        let tally = &self.family.tally;
        tally.shadowed.fetch_add(1, Ordering::Relaxed);
        let now = limits.clock.now_ms();
        let quiet_until = tally.quiet_until_ms.swap(now + QUIET_MS, Ordering::Relaxed);
        if now >= quiet_until {
            limits.events.emit(&Event::WouldReject { rejection });
        }
    }
}

/// Admits a call without counting it.
pub(in crate::limiter) fn unlimited(limits: &Inner, config: Config) -> Answer {
    Answer {
        allowed: true,
        shadowed: None,
        remaining: config.rate,
        retry_after: None,
        reset_after: Duration::ZERO,
        quota: config.quota(),
        off: false,
        degraded: false,
        at: UNIX_EPOCH + Duration::from_millis(limits.clock.now_ms()),
        violated: None,
        parts: None,
    }
}
