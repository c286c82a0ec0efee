//! Rejections that may block a key: reported to the store once per window with a rejected call, and in a long
//! window every second, because another process may have reset the count.
//!
//! Only the final result of a call counts: a cached denial counts, and a call that waits and gets
//! its permits does not.

use std::{
    ops::BitOr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ratelimit_spec::{Mode, Penalty};

use super::{
    Limiter,
    admin::both,
    core::{Core, Rule},
    plan::Part,
    services::Services,
};
use crate::{
    Reason, Rejection, StoreError, StoreErrorKind,
    clock::whole_ms,
    events::Event,
    store::{Outcome, Refused, Reply},
};

/// The maximum time for which a process does not report a rejection again.
const KNOWN_FOR_MS: u64 = 1_000;

impl Rule {
    /// Returns when and for how long keys are blocked, or `None` if they are not.
    pub(super) fn penalty(&self) -> Option<&Penalty> {
        Some(&self.numbers.as_ref().ok()?.effective.set.penalty.as_ref()?.value)
    }
}

impl Limiter {
    /// Ends the block of a key with a [penalty](crate::Penalty), and resets the counts of its
    /// rejected windows and its blocks. Returns whether there were any. Permits in use stay in use.
    /// Other processes notice within a second.
    ///
    /// # Errors
    ///
    /// As for [`available_permits`](Self::available_permits).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use ratelimit_runtime::{Limits, Penalty, Quota, Reason, Settings};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let limits = Limits::builder().memory().build().await?;
    /// let penalty = Penalty::new(1, Duration::from_secs(600));
    /// let settings = Settings::new(Quota::per_minute(1)).penalty(penalty);
    /// let login = limits.limiter("login", settings);
    /// login.acquire(1).await?;
    /// let rejection = login.try_acquire(1).await.unwrap_err();
    /// assert_eq!(rejection.reason(), Reason::Blocked);
    ///
    /// assert!(login.lift_penalty().await?);
    /// assert!(!login.lift_penalty().await?, "nothing is left of it");
    /// assert_eq!(login.available_permits().await?, 0, "the permit is still in use");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lift_penalty(&self) -> Result<bool, StoreError> {
        let mut lifted = Ok(false);
        for core in self.cores() {
            lifted = both(lifted, core.lift(&self.limits).await, bool::bitor);
        }
        lifted
    }
}

impl Core {
    /// Reports a rejection to the store, unless one was reported in this window, and returns the
    /// rejection for the caller, marked as blocked if the key is blocked now.
    pub(super) async fn penalize(
        self: &Arc<Self>,
        limits: &Arc<Services>,
        rejection: Rejection,
    ) -> Rejection {
        let rule = self.rule(limits);
        let config = self.in_force().or_else(|| Some(rule.numbers.as_ref().ok()?.config));
        let (Some(penalty), Some(config)) = (rule.penalty(), config) else { return rejection };
        if !is_refusal(&rejection) || config.mode == Mode::PerClient || !self.is_news(limits) {
            return rejection;
        }
        let (core, own, penalty) = (Arc::clone(self), Arc::clone(limits), *penalty);
        // The rejection counts even if the caller is dropped.
        let refused =
            limits.finish(async move { core.refused_now(&own, &penalty, config.per_ms).await });
        match refused.await {
            Ok(refused) if refused.blocked_for_ms > 0 => {
                rejection.blocked_for(Duration::from_millis(refused.blocked_for_ms))
            }
            Err(error) if error.kind() == StoreErrorKind::Misconfigured => {
                self.complain(limits, error);
                rejection
            }
            // While the store is unavailable, nothing counts.
            _ => rejection,
        }
    }

    async fn refused_now(
        &self,
        limits: &Services,
        penalty: &Penalty,
        per_ms: u64,
    ) -> Result<Refused, StoreError> {
        let sent = limits.clock.now_ms();
        let refused = limits.store.penalize(&self.keys, penalty, per_ms).await;
        let known_for = refused.as_ref().map_or(0, |refused| refused.window_ends_in_ms);
        self.know_until(sent + known_for.min(KNOWN_FOR_MS));
        let refused = refused?;
        self.know_block(limits, refused.blocked_for_ms);
        let block = Duration::from_millis(refused.blocked_for_ms);
        if refused.blocked_for_ms > 0 {
            // Cached denials report an earlier time than the block.
            self.denials.forget();
        }
        if refused.began {
            let limiter = Arc::clone(&self.family.key);
            self.family.row().measured.blocked();
            limits.events.emit(&Event::Blocked { limiter, block });
        }
        Ok(refused)
    }

    /// Resets the count of consecutive windows with rejections, and ends the block. Returns whether
    /// there was anything to reset.
    pub(super) async fn lift(&self, limits: &Services) -> Result<bool, StoreError> {
        let lifted = limits.store.lift(&self.keys).await?;
        self.forget_refused();
        self.forget_block();
        self.changed();
        Ok(lifted)
    }

    /// Returns for how many milliseconds a penalty blocks the key, as far as this process knows. While
    /// the store is unavailable, none does.
    pub(super) fn blocked_ms(&self, limits: &Services) -> u64 {
        let known = self.made().map_or(0, |rare| rare.blocked_until_ms.load(Ordering::Relaxed));
        let left = known.saturating_sub(limits.clock.now_ms());
        let applies = || self.rule(limits).penalty().is_some() && limits.store.health().is_ok();
        if left > 0 && applies() { left } else { 0 }
    }

    /// Records for how long the key is blocked. Waiting callers that cannot wait for its end are rejected.
    fn know_block(&self, limits: &Services, ms: u64) {
        if ms == 0 {
            return self.forget_block();
        }
        let until = limits.clock.now_ms().saturating_add(ms);
        let before = self.rare().blocked_until_ms.swap(until, Ordering::Relaxed);
        if before < until {
            self.queue.blocked_until(until);
        }
    }

    pub(super) fn forget_block(&self) {
        if let Some(rare) = self.made() {
            rare.blocked_until_ms.store(0, Ordering::Relaxed);
        }
    }

    /// Forgets that the store knows of a rejection in this window, because the window may have another length now, or
    /// the store has forgotten the rejection.
    pub(super) fn forget_refused(&self) {
        if let Some(rare) = self.made() {
            rare.refused_until_ms.store(0, Ordering::Relaxed);
        }
    }

    /// Returns whether no rejection was reported to the store in this window. The caller then
    /// reports its own, within the deadline.
    fn is_news(&self, limits: &Services) -> bool {
        let (known, now) = (&self.rare().refused_until_ms, limits.clock.now_ms());
        let (until, reported) = (known.load(Ordering::Relaxed), now + whole_ms(limits.deadline));
        let first =
            || known.compare_exchange(until, reported, Ordering::Relaxed, Ordering::Relaxed);
        until <= now && first().is_ok()
    }

    fn know_until(&self, ms: u64) {
        self.rare().refused_until_ms.store(ms, Ordering::Relaxed);
    }
}

impl Part<'_> {
    /// Records whether the key is blocked, from a reply to a request for permits. Calls behind waiting
    /// callers send no request, but have to wait for the end of the block too.
    pub(super) fn hear_block(&self, limits: &Services, reply: &Reply) {
        if self.core.is_further || self.rule.penalty().is_none() {
            return;
        }
        match reply.outcome {
            Outcome::Blocked => self.core.know_block(limits, reply.retry_after_ms),
            Outcome::Granted | Outcome::Refused => self.core.forget_block(),
            _ => {}
        }
    }
}

/// Returns whether the limits in the store rejected the call.
fn is_refusal(rejection: &Rejection) -> bool {
    matches!(rejection.reason(), Reason::Limited | Reason::WaitTooLong)
        && !rejection.decision().is_some_and(crate::Decision::is_degraded)
}
