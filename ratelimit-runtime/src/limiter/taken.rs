//! The permits that a call took, and where: released by grant, which affects no other call.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{
    Core,
    admin::both,
    per_process::{counted_here, local_share},
    plan::Asked,
    replies::Replies,
    services::Services,
};
use crate::{
    Settlement, StoreError,
    algorithm::Spent,
    store::{Grant, Outcome, Reply},
};

/// What counted the permits of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Store,
    /// This process, with its own budget.
    Process,
    /// This process, while the store was unavailable.
    Local,
}

/// The answer to a call that one limiter decided immediately.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Permits that were free in a count of this process, of which few callers need a reply.
    Spent(Spent),
    /// A reply, and the permits that the same batch granted after these.
    Reply(Reply, u64),
}

impl Answer {
    /// Returns whether permits were taken: a rejection that shadow mode overruled took none.
    pub(super) fn grants(&self) -> bool {
        match self {
            Self::Spent(_) => true,
            Self::Reply(reply, _) => reply.outcome == Outcome::Granted,
        }
    }

    /// Returns the permits left.
    pub(super) fn remaining(&self) -> u64 {
        match self {
            Self::Spent(spent) => spent.remaining(),
            Self::Reply(reply, _) => reply.remaining,
        }
    }

    /// Returns the reply, and the permits that the same batch granted after these.
    pub(super) fn replied(&self) -> (Reply, u64) {
        match self {
            Self::Spent(spent) => (Reply::of_spent(spent), 0),
            Self::Reply(reply, granted_after) => (*reply, *granted_after),
        }
    }
}

/// What a call took from one limiter.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(super) core: Arc<Core>,
    /// The other limiters that the call took from.
    others: Vec<Arc<Core>>,
    permits: u32,
    grants: Grants,
}

/// The grants of the stored limiters that a call took from.
#[derive(Clone, Debug)]
enum Grants {
    /// The call was not counted.
    None,
    One(Counted),
    /// One grant for each of several limits; none if the cost was 0.
    Several(Arc<[Counted]>),
}

#[derive(Clone, Debug)]
struct Counted {
    core: Arc<Core>,
    source: Source,
    grant: Grant,
}

impl Taken {
    /// A call that was not counted.
    pub(super) fn nothing(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), others: Vec::new(), permits: 0, grants: Grants::None }
    }

    /// The cost of 0 of a call that is charged later, if it has one.
    pub(super) fn free(core: &Arc<Core>) -> Self {
        Self { grants: Grants::Several(Arc::default()), ..Self::nothing(core) }
    }

    /// The permits of a reservation, or this many of them.
    pub(super) fn reserved(core: &Arc<Core>, source: Source, grant: Grant, permits: u32) -> Self {
        let grant = Grant { permits, ..grant };
        let counted = Counted { core: Arc::clone(core), source, grant };
        Self { grants: Grants::One(counted), permits, ..Self::nothing(core) }
    }

    /// The permits granted by the replies to a claim.
    pub(super) fn by(asked: &Asked<'_>, replies: &Replies, source: Source) -> Self {
        if let [reply] = &*replies.each {
            let grant = Grant::of(reply, asked.permits, replies.granted_after);
            return Self::reserved(asked.core, source, grant, asked.permits);
        }
        let limiters = asked.core.members(asked.rule);
        Self::of(asked.core, limiters, asked.permits, replies, source)
    }

    fn of(
        core: &Arc<Core>,
        limiters: Vec<Arc<Core>>,
        permits: u32,
        replies: &Replies,
        source: Source,
    ) -> Self {
        let counted = limiters.into_iter().zip(&*replies.each).map(|(core, reply)| {
            let grant = Grant::of(reply, permits, replies.granted_after);
            Counted { core, source, grant }
        });
        Self { grants: Grants::Several(counted.collect()), permits, ..Self::nothing(core) }
    }

    /// The permits that replies granted to a caller that is gone; `None` if they granted none.
    pub(super) fn unclaimed(
        core: &Arc<Core>,
        limits: &Services,
        permits: u32,
        replies: &Replies,
    ) -> Option<Self> {
        let rule = core.rule(limits);
        let limiters = core.members(&rule);
        (replies.grant() && limiters.len() == replies.each.len())
            .then(|| Self::of(core, limiters, permits, replies, Source::Store))
    }

    /// The same permits, which a shard of this limiter granted: they are settled with all shards.
    pub(super) fn by_shard_of(self, whole: &Arc<Core>) -> Self {
        Self { core: Arc::clone(whole), ..self }
    }

    /// Combines the permits that a call took from two limiters.
    pub(super) fn and(mut self, other: Self) -> Self {
        let grants: Vec<Counted> = self.counted().iter().chain(other.counted()).cloned().collect();
        self.permits = self.permits.max(other.permits);
        self.others.push(other.core);
        self.others.extend(other.others);
        Self { grants: Grants::Several(grants.into()), ..self }
    }

    /// The number of permits that were taken.
    pub(crate) fn permits(&self) -> u32 {
        self.permits
    }

    /// Returns whether the call was counted.
    pub(crate) fn is_counted(&self) -> bool {
        !matches!(self.grants, Grants::None)
    }

    /// Returns whether this process counted all permits, so that releasing them needs no store.
    fn is_here(&self) -> bool {
        self.counted().iter().all(|counted| counted.source != Source::Store)
    }

    fn counted(&self) -> &[Counted] {
        match &self.grants {
            Grants::None => &[],
            Grants::One(counted) => std::slice::from_ref(counted),
            Grants::Several(counted) => counted,
        }
    }

    /// Releases at most this many permits of what the grant still holds; returns how many were
    /// released, the most of any limit. An error of one limit does not affect the others.
    pub(crate) async fn give_back_some(
        &self,
        limits: &Services,
        permits: u32,
    ) -> Result<u64, StoreError> {
        let (mut most, mut failed) = (0, Ok(()));
        // The further limits of a limiter follow its first.
        for limiter in self.counted().chunk_by(|_, next| next.core.is_further) {
            let mut of_limiter = 0;
            for Counted { core, source, grant } in limiter {
                let grant = Grant { permits: grant.permits.min(permits), ..*grant };
                match self.give_back_of(limits, core, *source, &grant).await {
                    Ok(back) => of_limiter = of_limiter.max(back),
                    Err(error) => failed = failed.and(Err(error)),
                }
            }
            if of_limiter > 0 {
                limiter[0].core.family.row().measured.refunded(of_limiter);
            }
            most = most.max(of_limiter);
        }
        failed.map(|()| most)
    }

    /// Releases what one grant still holds of its permits.
    async fn give_back_of(
        &self,
        limits: &Services,
        core: &Arc<Core>,
        source: Source,
        grant: &Grant,
    ) -> Result<u64, StoreError> {
        let (keys, in_force) = (&core.keys, core.in_force().unwrap_or(grant.config));
        // The permits are free in the store, so no cached denial may apply.
        core.denials.forget();
        self.core.denials.forget();
        let back = match source {
            Source::Store => limits.store.give_back(keys, grant).await?,
            Source::Process => {
                limits.per_client.give_back_counted(keys, counted_here(in_force), grant)
            }
            Source::Local => {
                let share = local_share(limits, in_force);
                limits.local.give_back(limits, keys, share, grant)
            }
        };
        if back > 0 {
            core.changed();
            self.core.changed();
        }
        Ok(back)
    }

    /// Corrects the cost to `actual`: releases the difference if it is less, takes it if it is more.
    pub(crate) async fn settle(
        &self,
        limits: &Arc<Services>,
        actual: u64,
    ) -> Result<Settlement, StoreError> {
        let taken = u64::from(self.permits);
        if !self.is_counted() || actual == taken {
            return Ok(Settlement::default());
        }
        if let Some(unused) = taken.checked_sub(actual) {
            let unused = u32::try_from(unused).unwrap_or(u32::MAX);
            let returned = self.give_back_some(limits, unused).await?;
            return Ok(Settlement { returned, ..Settlement::default() });
        }
        let all: Vec<_> = self.limiters().cloned().collect();
        charge_all(&all, limits, actual - taken).await
    }

    /// Corrects the cost without a caller that awaits it.
    pub(crate) fn settle_later(self, limits: &Arc<Services>, actual: u64) {
        let kept = limits.clone();
        let here = self.is_here() && actual <= self.permits.into();
        limits.start(here, async move {
            if self.settle(&kept, actual).await.is_err() {
                self.count_lost();
            }
        });
    }

    /// Releases everything that the grant still holds. A store that is unavailable keeps it until
    /// it expires.
    pub(crate) async fn give_back(&self, limits: &Services) {
        if self.give_back_some(limits, self.permits).await.is_err() {
            self.count_lost();
        }
    }

    /// Counts a settlement that the store did not receive, for each limiter that the store counts.
    fn count_lost(&self) {
        let stored = self.limiters().filter(|core| !core.is_counted_here(&core.rule.load()));
        stored.for_each(|core| core.count_degraded());
    }

    /// The limiters that the call took from.
    fn limiters(&self) -> impl Iterator<Item = &Arc<Core>> {
        std::iter::once(&self.core).chain(&self.others)
    }

    /// Releases permits granted to a caller that is gone. After a `late` reply the store is closed
    /// to calls until a probe reaches it. There is only one attempt, because the outcome of a
    /// failed one is unknown, and a second one could release permits of other callers.
    pub(super) async fn give_back_unclaimed(&self, limits: &Services, late: bool) {
        if late {
            sleep(Duration::from_secs(1)).await;
        }
        self.give_back(limits).await;
    }

    /// Releases unused permits without a caller that awaits it.
    pub(crate) fn give_back_later(limits: &Arc<Services>, taken: impl IntoIterator<Item = Self>) {
        let taken: Vec<Self> = taken.into_iter().filter(Self::is_counted).collect();
        if taken.is_empty() {
            return;
        }
        let kept = limits.clone();
        let here = taken.iter().all(Self::is_here);
        limits.start(here, async move {
            for taken in taken.into_iter().rev() {
                taken.give_back(&kept).await;
            }
        });
    }
}

/// Charges each of these limiters.
pub(super) async fn charge_all(
    all: &[Arc<Core>],
    limits: &Arc<Services>,
    permits: u64,
) -> Result<Settlement, StoreError> {
    let mut strictest = Ok(Settlement::default());
    for core in all {
        strictest = both(strictest, core.charge(limits, permits).await, Settlement::stricter);
    }
    strictest
}

/// The permits that a call took so far. They are released if the call is dropped before it has all of them.
#[derive(Debug)]
pub(super) struct Held<'a> {
    limits: &'a Arc<Services>,
    taken: Vec<Taken>,
}

impl<'a> Held<'a> {
    pub(super) fn new(limits: &'a Arc<Services>) -> Self {
        Self { limits, taken: Vec::new() }
    }

    pub(super) fn note(&mut self, taken: &Taken) {
        if taken.is_counted() {
            let (permits, grants) = (taken.permits, taken.grants.clone());
            self.taken.push(Taken { permits, grants, ..Taken::nothing(&taken.core) });
        }
    }

    pub(super) fn keep(mut self) {
        self.taken.clear();
    }

    /// Releases everything, the last permits first: once, even if the caller is dropped meanwhile.
    pub(super) async fn give_back(mut self) {
        let (limits, taken) = (self.limits.clone(), std::mem::take(&mut self.taken));
        if taken.is_empty() {
            return;
        }
        let released = self.limits.finish(async move {
            for taken in taken.into_iter().rev() {
                taken.give_back(&limits).await;
            }
            Ok(())
        });
        // The engine of limits that have ended releases nothing.
        let _ = released.await;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        Taken::give_back_later(self.limits, self.taken.drain(..));
    }
}
