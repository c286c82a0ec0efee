//! Limiters in shadow mode: they decide as ever, and refuse nobody.
//!
//! Only a refusal is looked at here, so that a limiter which grants pays nothing for it. What is no
//! limit's doing (a store that is set up wrongly, no numbers, a senseless call) stays an error.

use std::sync::{Arc, atomic::Ordering};

use super::{Core, policy::unlimited};
use crate::{Answer, Limits, Reason, Rejection, events::Event, limits::Inner};

/// How long a limiter has to refuse nobody until it is told of again.
const QUIET_MS: u64 = 60_000;

impl Core {
    /// Whether the limiter is in shadow mode, as of the last reading of the limits.
    pub(super) fn is_shadowed(&self, limits: &Inner) -> bool {
        self.rule(limits).is_shadowed()
    }

    /// Takes permits if they are free. In shadow mode the call goes ahead if they are not, which is
    /// counted and told.
    pub(super) async fn take(
        self: &Arc<Self>,
        limits: &Limits,
        permits: u32,
    ) -> Result<Answer, Rejection> {
        let answer = self.decide_after_debt(limits, permits).await;
        let limits = limits.inner();
        if matches!(&answer, Ok(decision) if decision.allowed) || !self.is_shadowed(limits) {
            return answer;
        }
        let decision = self.in_shadow(limits, answer.clone())?;
        self.would_refuse(limits, || match answer {
            Ok(refusal) => self.refused(Reason::Limited, &refusal),
            Err(rejection) => rejection,
        });
        Ok(decision)
    }

    /// What a request would get in shadow mode.
    pub(super) fn in_shadow(
        &self,
        limits: &Inner,
        answer: Result<Answer, Rejection>,
    ) -> Result<Answer, Rejection> {
        match answer {
            Ok(decision) if decision.allowed => Ok(decision),
            Ok(refusal) => Ok(Answer { allowed: true, shadowed: Some(Reason::Limited), ..refusal }),
            Err(rejection) => match rejection.reason() {
                Reason::ExceedsCapacity | Reason::StoreUnavailable => {
                    self.admitted(limits, &rejection)
                }
                _ => Err(rejection),
            },
        }
    }

    /// Admits a call that no store was asked about, or none answered.
    fn admitted(&self, limits: &Inner, rejection: &Rejection) -> Result<Answer, Rejection> {
        let config = match self.in_force() {
            Some(config) => config,
            None => self.numbers(limits)?.config,
        };
        let unlimited = unlimited(limits, config);
        Ok(Answer {
            remaining: 0,
            retry_after: rejection.retry_after(),
            quota: rejection.quota().unwrap_or(unlimited.quota),
            degraded: rejection.reason() == Reason::StoreUnavailable,
            shadowed: Some(rejection.reason()),
            ..unlimited
        })
    }

    /// Counts a call that only shadow mode let through, and tells of the first one after a while
    /// without.
    pub(super) fn would_refuse(&self, limits: &Inner, rejection: impl FnOnce() -> Rejection) {
        let tally = &self.family.tally;
        tally.shadowed.fetch_add(1, Ordering::Relaxed);
        let now = limits.clock.now_ms();
        let quiet_until = tally.quiet_until_ms.swap(now + QUIET_MS, Ordering::Relaxed);
        if now >= quiet_until {
            limits.events.emit(&Event::WouldReject { rejection: rejection() });
        }
    }
}
