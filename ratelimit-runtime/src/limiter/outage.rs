//! When this process begins to count a limiter instead of the store, and how its counts reach the
//! store after the outage.

mod charge;

use std::{
    collections::hash_map::Entry,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use ratelimit_spec::Rule;
use tokio::time::Instant;

pub(super) use self::charge::Refused;
use self::charge::charge_all;
use super::{
    core::{Core, Rule as Numbers},
    local::{Begun, Counted, Known, Local},
    per_process::local_share,
    plan::{Asked, Part},
    services::Services,
};
use crate::{
    StoreError,
    algorithm::State,
    clock,
    store::{Config, Grant, StateKeys, sweep},
};

/// A charge in progress.
pub(super) type Charging = Pin<Box<dyn Future<Output = Result<Refused, StoreError>> + Send>>;

/// The interval at which limiters without permits in use are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

impl Local {
    /// Counts all limits of a key in this process from now on, unless that has begun.
    pub(super) fn begin(&self, limits: &Arc<Services>, core: &Arc<Core>, rule: &Numbers) {
        let mut all = self.counted();
        for (core, part) in core.members(rule).into_iter().zip(core.each_part(rule)) {
            let counted = all.get(core.keys.config());
            if matches!(counted, Some(Counted::Alone(_))) {
                continue;
            }
            let known = self.known(limits, &part, counted);
            let key = core.keys.config().to_owned();
            all.insert(key, Counted::Alone(Arc::new(Begun::new(core, known))));
        }
        self.watch(limits);
    }

    /// Counts all limits of a key in this process as well as in the store, until then.
    pub(super) fn keep(&self, limits: &Arc<Services>, asked: &Asked<'_>, until: Instant) {
        let mut all = self.counted();
        for part in asked.core.each_part(asked.rule) {
            let counted = all.get(part.core.keys.config());
            if let Some(Counted::Alone(begun)) = counted
                && !begun.is_charged(limits)
            {
                continue;
            }
            self.known(limits, &part, counted);
            all.insert(part.core.keys.config().to_owned(), Counted::Too(until));
        }
        self.watch(limits);
    }

    /// Returns the local usage that the store knows of: all of it, counted from now on if it was not.
    fn known(&self, limits: &Services, part: &Part<'_>, counted: Option<&Counted>) -> State {
        match counted {
            Some(Counted::Alone(_)) => self.counts.copy(&part.core.keys),
            Some(Counted::Too(until)) if clock::instant() < *until => {
                self.counts.copy(&part.core.keys)
            }
            _ => {
                let (known, share) = (known(limits, part), local_share(limits, part.in_force()));
                self.counts.put(&part.core.keys, known.clone(), share);
                known
            }
        }
    }

    /// Charges local counts when the store is available again, and removes those that are over.
    fn watch(&self, limits: &Arc<Services>) {
        if !self.any.swap(true, Ordering::Release) {
            limits.engine.spawn_endless(charge_when_back(Arc::downgrade(limits)));
        }
    }

    /// Excludes what was just counted from charges, because the store may have counted it. `count` does the same
    /// again, with this share and at this time.
    pub(super) fn excuse(
        &self,
        limits: &Services,
        part: &Part<'_>,
        count: impl Fn(&mut State, &Config, u64),
    ) {
        if let Some(Counted::Alone(limiter)) = self.counted().get(part.core.keys.config()) {
            let (share, now) = (local_share(limits, part.in_force()), limits.clock.now_ms());
            let Known { state, in_doubt } = &mut *limiter.known();
            let in_doubt = in_doubt.as_mut().map(|(state, _)| state);
            in_doubt.into_iter().chain([state]).for_each(|state| count(state, &share, now));
        }
    }

    /// Releases permits of a grant that the store does not know of, and returns how many. Those that were charged to
    /// the store stay in use there, because a charge keeps no grants.
    pub(super) fn give_back(
        &self,
        limits: &Services,
        keys: &StateKeys,
        share: Config,
        grant: &Grant,
    ) -> u64 {
        let all = self.counted();
        let Some(begun) = all.get(keys.config()).and_then(Counted::begun) else { return 0 };
        let known = begun.known();
        let uncharged = begun.granted(limits, known.latest());
        let uncharged = u32::try_from(uncharged).unwrap_or(u32::MAX);
        let grant = Grant { permits: grant.permits.min(uncharged), ..*grant };
        self.counts.give_back_counted(keys, share, &grant)
    }

    /// Releases permits that the store released from this process's share too, unless the store still has to be
    /// charged for some of it.
    pub(super) fn release(&self, limits: &Services, core: &Core, config: Config, permits: u64) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let all = self.counted();
        let mut known = match all.get(core.keys.config()) {
            Some(Counted::Alone(begun)) => {
                let known = begun.known();
                if begun.granted(limits, &known.state) > 0 {
                    return;
                }
                Some(known)
            }
            Some(Counted::Too(_)) => None,
            None => return,
        };
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        self.counts.uncount(&core.keys, local_share(limits, config), permits);
        if let Some(known) = &mut known {
            **known = Known::new(self.counts.copy(&core.keys));
        }
    }

    /// Charges what these limiters granted here, before the store grants more of them. `None` if they
    /// granted nothing; an error if the store rejects all calls, including those that were to follow.
    pub(super) fn charge_first<'a>(
        &self,
        limits: &Arc<Services>,
        cores: impl Iterator<Item = &'a Core>,
    ) -> Option<Charging> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let all = self.counted();
        let begun = cores.filter_map(|core| all.get(core.keys.config())?.begun());
        let begun: Vec<_> = begun.cloned().collect();
        drop(all);
        let limits = Arc::clone(limits);
        (!begun.is_empty()).then(|| {
            let charging: Charging = Box::pin(async move {
                for limiter in &begun {
                    limiter.is_let_through(&limits)?;
                }
                // Another runtime may wait for the same charge, so the charge runs in no caller's runtime.
                let services = Arc::clone(&limits);
                limits.finish(async move { Ok(charge_all(&services, begun).await) }).await
            });
            charging
        })
    }

    /// Charges all limiters that were counted here and whose server is available.
    async fn charge(&self, limits: &Arc<Services>) -> Refused {
        let begun = self.counted().values().filter_map(Counted::begun).cloned().collect();
        charge_all(limits, begun).await
    }

    /// Charges what an outage granted before the engine ends: the task that does so later ends with it.
    pub(super) fn charge_last(&self, limits: &Arc<Services>) {
        if self.any.load(Ordering::Acquire) {
            let services = Arc::clone(limits);
            limits.engine.spawn(async move { drop(services.local.charge(&services).await) });
        }
    }

    /// Ends local counting of a limiter, unless permits granted here still have to be charged.
    pub(super) fn end(&self, limits: &Services, core: &Core) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut all = self.counted();
        let Entry::Occupied(mut counted) = all.entry(core.keys.config().to_owned()) else { return };
        if counted.get().begun().is_some_and(|begun| begun.is_charged(limits)) {
            match limits.recovers_until(&core.keys) {
                Some(until) => drop(counted.insert(Counted::Too(until))),
                None => drop(counted.remove()),
            }
        }
    }

    /// Discards what was granted here of a limiter.
    pub(super) fn forget(&self, keys: &StateKeys) {
        if self.counted().remove(keys.config()).is_some() {
            self.counts.forget(keys);
        }
    }

    /// Removes limiters without permits in use. Returns whether any limiter is left.
    fn sweep(&self, limits: &Services) -> bool {
        let mut all = self.counted();
        let (unused, now) = (State::default(), clock::instant());
        sweep(&mut all, |_, counted| match counted {
            Counted::Alone(limiter) => limiter.granted(limits, &unused) > 0,
            Counted::Too(until) => now < *until,
        });
        self.any.store(!all.is_empty(), Ordering::Release);
        !all.is_empty()
    }
}

impl Counted {
    fn begun(&self) -> Option<&Arc<Begun>> {
        match self {
            Self::Alone(begun) => Some(begun),
            Self::Too(_) => None,
        }
    }
}

/// Returns the usage of a process's share, as of the last reply.
fn known(limits: &Services, part: &Part<'_>) -> State {
    let mut state = State::default();
    let Some(left) = part.core.left() else { return state };
    let (whole, share) = (&left.config, local_share(limits, *left.config));
    let used = if share.is_spaced() {
        // None is ever left. The next one is free after those taken, at the share's rate.
        let taken = left.reset_after_ms.saturating_mul(share.rate).div_ceil(share.per_ms);
        taken.min(share.capacity())
    } else {
        share.capacity().saturating_sub(left.permits / u64::from(limits.instances()))
    };
    if used > 0 {
        // A log releases all of it when the whole quota is free.
        let dated_ms = match whole.rule {
            Rule::SlidingWindow => {
                (left.heard_ms + left.reset_after_ms).saturating_sub(whole.per_ms)
            }
            _ => left.heard_ms,
        };
        // The time until a bucket is free does not show how many cold permits it is for.
        let rule = if share.is_spaced() { Rule::LeakyBucket } else { share.rule };
        state.acquire(&Config { rule, ..share }, used, dated_ms.min(left.heard_ms));
    }
    state
}

/// Charges all limiters that were counted here whenever their server is available again, until none is left.
async fn charge_when_back(limits: Weak<Services>) {
    let Some(reopened) = limits.upgrade().map(|limits| limits.store.reopened()) else { return };
    loop {
        // This task does not keep the limits alive during a long outage.
        let _ = tokio::time::timeout(SWEEP_EVERY, reopened.notified()).await;
        let Some(limits) = limits.upgrade() else { return };
        // A shutdown waits for a charge in progress. A rejected one is repeated when the store is available again.
        let services = Arc::clone(&limits);
        let _ = limits.finish(async move { Ok(services.local.charge(&services).await) }).await;
        if !limits.local.sweep(&limits) {
            return;
        }
    }
}
