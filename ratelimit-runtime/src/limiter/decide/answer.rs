//! What a call gets: answers and rejections, made of the replies of a store.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, UNIX_EPOCH},
};

use super::Why;
use crate::{
    Answer, Quota, Reason, Rejection, StoreError,
    events::Event,
    limiter::{
        core::{Core, Numbers, Rule},
        plan::Part,
        replies::{answer_of, answers_of, bit},
        services::Services,
    },
    settings::Unresolved,
    store::{Config, Heard, Outcome, Reply},
};

/// How long a shadowed limiter has to refuse no call until the next such event, in milliseconds.
const QUIET_MS: u64 = 60_000;

/// Whether a decision needs to be counted.
pub(in crate::limiter) enum Ready<'a> {
    Decided(Answer),
    /// With the number of permits, which fits in a request.
    Ask(&'a Numbers, u32),
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
        limits: &Services,
        rule: &'a Rule,
        permits: u64,
    ) -> Result<Ready<'a>, Rejection> {
        let numbers = rule.numbers.as_ref().map_err(|why| self.not_configured(why))?;
        if let Some(problem) = &limits.broken {
            let rejection = self.rejection(Reason::StoreMisconfigured);
            return Err(rejection.with_detail(problem.to_string()));
        }
        if !numbers.effective.set.enabled() {
            let unlimited = unlimited(limits, numbers.config);
            return Ok(Ready::Decided(Answer { off: true, ..unlimited }));
        }
        if permits == 0 {
            let known = self.in_force().unwrap_or(numbers.config);
            return Ok(Ready::Decided(unlimited(limits, known)));
        }
        if limits.is_shut_down() {
            return Err(self
                .rejection(Reason::StoreUnavailable)
                .with_source(&StoreError::shut_down()));
        }
        let known = self.in_force().map_or(0, |config| config.capacity());
        if permits > numbers.config.capacity().max(known) && !numbers.follow {
            return Err(self.too_many(permits, numbers.config));
        }
        if rule.is_joint() {
            let capacity = |config: Config| config.capacity();
            let short = |part: &Part<'_>| {
                permits > capacity(part.numbers.config).max(capacity(part.in_force()))
            };
            if let Some(part) = self.parts(rule).into_iter().find(short) {
                return Err(self.too_many(permits, part.numbers.config));
            }
        }
        let count = u32::try_from(permits).map_err(|_| self.too_many(permits, numbers.config))?;
        Ok(Ready::Ask(numbers, count))
    }

    /// The answer to a request, by what the store replied for all limits of the key.
    pub(in crate::limiter) fn answer(&self, heard: &Heard, permits: u32, degraded: bool) -> Answer {
        let Heard { reply, parts } = heard;
        let answer = answer_of(reply, degraded);
        // A cached denial of several limits keeps the reply of each.
        let several = !answer.allowed && reply.violated != 0;
        Answer {
            violated: several.then(|| self.violated(reply)),
            parts: match parts {
                Some(parts) => Some(answers_of(parts)),
                None if several => self.denials.parts(permits, reply),
                None => None,
            },
            ..answer
        }
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
        heard: &Heard,
        permits: u32,
        degraded: bool,
    ) -> Why {
        match heard.reply.outcome {
            Outcome::ExceedsCapacity => Why::Rejected(self.too_many(permits, heard.reply.config)),
            Outcome::Unknown => Why::Rejected(self.unknown()),
            _ => Why::NotNow(Box::new(self.answer(heard, permits, degraded))),
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
        self.rejection(Reason::ExceedsCapacity)
            .with_quota(quota)
            .with_detail(format!("requested {permits}, quota {quota}"))
    }

    /// The rejection of a request that no shard can ever grant.
    pub(super) fn too_many_of_shards(
        &self,
        permits: u64,
        numbers: &Numbers,
        shards: usize,
    ) -> Option<Rejection> {
        if permits <= numbers.config.capacity() / shards as u64 {
            return None;
        }
        let quota = numbers.config.quota();
        let detail = format!("requested {permits}, quota {quota} in {shards} shards");
        Some(self.rejection(Reason::ExceedsCapacity).with_quota(quota).with_detail(detail))
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

    /// The rejection of a request that the limiter refused for this reason, unless a penalty blocks it.
    pub(in crate::limiter) fn refused(&self, reason: Reason, answer: &Answer) -> Rejection {
        answer.rejection(reason, &self.family.key)
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
    pub(super) fn shadowed(&self, limits: &Services, rule: &Rule, why: &Why) -> Option<Answer> {
        let answer = self.in_shadow(limits, rule, why)?;
        self.note_shadowed(limits, || match why {
            Why::NotNow(answer) => self.refused(Reason::Limited, answer),
            Why::Rejected(rejection) => rejection.clone(),
        });
        Some(answer)
    }

    /// Counts a call that only shadow mode admits, and reports it now and then.
    pub(super) fn note_shadowed(&self, limits: &Services, rejection: impl FnOnce() -> Rejection) {
        let tally = &self.family.tally;
        tally.shadowed.fetch_add(1, Ordering::Relaxed);
        self.family.measured.shadowed();
        let now = limits.clock.now_ms();
        let quiet_until = tally.quiet_until_ms.swap(now + QUIET_MS, Ordering::Relaxed);
        if now >= quiet_until {
            limits.events.emit(&Event::WouldReject { rejection: rejection() });
        }
    }

    /// The same without a trace.
    pub(super) fn in_shadow(&self, limits: &Services, rule: &Rule, why: &Why) -> Option<Answer> {
        if !rule.is_shadowed() {
            return None;
        }
        let rejection = match why {
            Why::NotNow(answer) => {
                return Some((**answer).clone().in_shadow());
            }
            Why::Rejected(rejection) => rejection,
        };
        let reason = rejection.reason();
        if !matches!(reason, Reason::ExceedsCapacity | Reason::StoreUnavailable) {
            return None;
        }
        let config = self.in_force().or(rule.numbers.as_ref().ok().map(|n| n.config))?;
        let unlimited = unlimited(limits, config);
        Some(Answer {
            shadowed: Some(reason),
            remaining: 0,
            retry_after: rejection.retry_after(),
            quota: rejection.quota().unwrap_or(unlimited.quota),
            degraded: reason == Reason::StoreUnavailable,
            ..unlimited
        })
    }
}

impl Answer {
    /// The rejection of a request that a limiter with this key refused.
    pub(super) fn rejection(&self, reason: Reason, key: &Arc<str>) -> Rejection {
        let reason = if self.blocked { Reason::Blocked } else { reason };
        let quotas = (self.quota, self.violated.clone());
        Rejection::refused(key, reason, self.retry_after, quotas, self.decision(key))
    }

    /// A refusal as shadow mode says it.
    pub(super) fn in_shadow(self) -> Self {
        let reason = if self.blocked { Reason::Blocked } else { Reason::Limited };
        Self { allowed: true, shadowed: Some(reason), ..self }
    }
}

/// Admits a call without counting it.
pub(in crate::limiter) fn unlimited(limits: &Services, config: Config) -> Answer {
    Answer {
        allowed: true,
        shadowed: None,
        remaining: config.rate,
        retry_after: None,
        reset_after: Duration::ZERO,
        more_after: Duration::ZERO,
        quota: config.quota(),
        off: false,
        blocked: false,
        degraded: false,
        at: UNIX_EPOCH + Duration::from_millis(limits.clock.now_ms()),
        violated: None,
        parts: None,
    }
}
