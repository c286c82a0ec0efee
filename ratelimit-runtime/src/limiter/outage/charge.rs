//! What this process granted during an outage, charged to the store after it.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use tokio::task::JoinSet;

use crate::{
    StoreError,
    algorithm::State,
    limiter::{
        core::Core,
        local::{Begun, Known},
        per_process::local_share,
        plan::Part,
        services::Services,
    },
    store::Charge,
};

/// The number of limiters that are charged concurrently.
const AT_ONCE: usize = 32;

/// The limiters that could not be charged, and why.
#[derive(Default)]
pub(in crate::limiter) struct Refused(Vec<(Arc<Begun>, StoreError)>);

impl Begun {
    /// Returns how many permits were granted here beyond this usage and still count.
    pub(super) fn granted(&self, limits: &Services, known: &State) -> u64 {
        let rule = self.core.rule(limits);
        let Some(part) = self.core.each_part(&rule).next() else { return 0 };
        part.granted_between(limits, known, &limits.local.counts.copy(&self.core.keys))
    }

    /// Returns whether the store knows of all permits granted here, by replies to its charges.
    pub(super) fn is_charged(&self, limits: &Services) -> bool {
        self.granted(limits, &self.known().state) == 0
    }

    pub(super) fn is_let_through(&self, limits: &Services) -> Result<(), StoreError> {
        limits.store.why_closed(&self.core.keys).map_or(Ok(()), Err)
    }

    /// Charges what was granted here since the last charge and still counts, unless the store rejects it.
    async fn charge(&self, limits: &Services) -> Result<(), StoreError> {
        let charging = self.charging.lock().await;
        self.is_let_through(limits)?;
        let rule = self.core.rule(limits);
        let Some(part) = self.core.each_part(&rule).next() else {
            *self.known() = Known::new(limits.local.counts.copy(&self.core.keys));
            return Ok(());
        };
        let mut sent = false;
        loop {
            // A charge in doubt comes first: the store makes it now, unless it has made it before.
            let repeats = self.known().in_doubt.is_some();
            let (permits, id) = self.begin_charge(limits, &part);
            if permits > 0 {
                sent = true;
                let made = part.charge_granted(limits, permits, id).await;
                if !matches!(made, Ok(true)) {
                    if !repeats && !made.as_ref().is_err_and(StoreError::is_in_doubt) {
                        self.known().in_doubt = None;
                    }
                    // The call that follows was not sent.
                    return made.map(drop).map_err(|error| error.in_doubt(false));
                }
            }
            let mut known = self.known();
            if let Some((charged, _)) = known.in_doubt.take() {
                known.state = charged;
            }
            if !repeats {
                break;
            }
        }
        drop(charging);
        if sent {
            limits.local.end(limits, &self.core);
        }
        Ok(())
    }

    /// Begins the charge in doubt again, or one for all that was granted here. Returns its permits and its id.
    fn begin_charge(&self, limits: &Services, part: &Part<'_>) -> (u64, u64) {
        let mut known = self.known();
        let Known { state, in_doubt } = &mut *known;
        let begin = || (limits.local.counts.copy(&self.core.keys), RandomState::new().hash_one(()));
        let (charged, id) = in_doubt.get_or_insert_with(begin);
        (part.granted_between(limits, state, charged), *id)
    }
}

impl Part<'_> {
    /// Returns how many permits were granted here between these states and still count.
    fn granted_between(&self, limits: &Services, from: &State, to: &State) -> u64 {
        let (share, now) = (local_share(limits, self.in_force()), limits.clock.now_ms());
        to.used_since(from, &share, now)
    }

    /// Charges permits that were granted here, once for each id. Returns false if the store has a rate of 0: it
    /// records no usage then.
    async fn charge_granted(
        &self,
        limits: &Services,
        permits: u64,
        id: u64,
    ) -> Result<bool, StoreError> {
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        // What was granted is owed even if a charge may owe less.
        let max_debt = self.max_debt().map(|most| most.max(self.in_force().capacity()));
        let charge = Charge { permits, max_debt, id: Some(id) };
        let (reply, _) = limits.store.charge(&self.request(limits), charge).await?;
        self.observe(limits, &reply);
        self.core.hear_left(&reply, limits.clock.now_ms());
        self.core.denials.forget();
        Ok(reply.config.rate > 0)
    }
}

impl Refused {
    pub(in crate::limiter) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns why this limiter could not be charged.
    pub(in crate::limiter) fn of(&self, core: &Core) -> Option<&StoreError> {
        let refused = self.0.iter().find(|(limiter, _)| limiter.core.keys == core.keys);
        refused.map(|(_, error)| error)
    }

    /// Returns the first error, for a call that needs all of the limiters.
    pub(in crate::limiter) fn any(self) -> Result<(), StoreError> {
        self.0.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// Charges all of these limiters.
pub(super) async fn charge_all(limits: &Arc<Services>, begun: Vec<Arc<Begun>>) -> Refused {
    let mut refused = Vec::new();
    for some in begun.chunks(AT_ONCE) {
        let charge = |limiter: &Arc<Begun>| {
            let (limits, limiter) = (Arc::clone(limits), Arc::clone(limiter));
            async move { limiter.charge(&limits).await.err().map(|error| (limiter, error)) }
        };
        let charging: JoinSet<_> = some.iter().map(charge).collect();
        refused.extend(charging.join_all().await.into_iter().flatten());
    }
    Refused(refused)
}
