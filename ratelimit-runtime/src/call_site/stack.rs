//! The limits of a call that has several, or that may give its permits back.
//!
//! They are decided one after the other in the order they are written, since each may live on
//! another node. What the earlier ones took is given back when a later one refuses.

use std::sync::Arc;

use super::{CallSite, Key, Permits};
use crate::{
    Limits, Reason, Rejection,
    limiter::{Core, Pending, Taken},
};

/// What one attribute asks for; nothing where its `skip_if` leaves the call alone.
#[derive(Debug)]
pub struct Asked(Option<Ask>);

#[derive(Debug)]
struct Ask {
    site: &'static CallSite,
    key: Key,
    permits: Permits,
}

impl CallSite {
    /// What this attribute asks for.
    #[must_use]
    pub fn asks(&'static self, key: Key, permits: impl Into<Permits>) -> Asked {
        Asked(Some(Ask { site: self, key, permits: permits.into() }))
    }
}

/// What an attribute asks for that leaves this call alone.
#[must_use]
pub fn skipped() -> Asked {
    Asked(None)
}

/// Takes the permits of all attributes, or none.
///
/// # Errors
///
/// The position of the attribute that kept the call from its permits, and why it did.
pub async fn acquire_all<const N: usize>(
    asked: [Asked; N],
) -> Result<Settlement<N>, (usize, Rejection)> {
    let limits = Limits::current();
    let claims = asked.map(|Asked(ask)| ask.map(|ask| Claim::new(ask, &limits)));
    let settles = claims
        .each_ref()
        .map(|claim| claim.as_ref().is_some_and(|claim| claim.site.annotation.settles));
    let mut pending = Pending::new(&limits);
    for (position, claim) in claims.into_iter().enumerate() {
        let Some(claim) = claim else { continue };
        match claim.take(&limits).await {
            Ok(taken) => pending.put(position, taken),
            Err(rejection) => {
                pending.give_back().await;
                return Err((position, rejection));
            }
        }
    }
    Ok(Settlement { taken: pending.keep(), settles, limits })
}

/// Takes the permits of all attributes, none of which can refuse the call.
pub async fn admit_all<const N: usize>(asked: [Asked; N]) -> Settlement<N> {
    match acquire_all(asked).await {
        Ok(settlement) => settlement,
        // No such attribute refuses; if it did, nothing would be taken.
        Err(_) => Settlement {
            limits: Limits::current(),
            taken: [const { None }; N],
            settles: [false; N],
        },
    }
}

/// One attribute's request, and the limiter it goes to.
struct Claim {
    site: &'static CallSite,
    core: Arc<Core>,
    permits: Permits,
}

impl Claim {
    fn new(Ask { site, key, permits }: Ask, limits: &Limits) -> Self {
        Self { site, core: site.with_core(limits, &key, Arc::clone), permits }
    }

    async fn take(self, limits: &Limits) -> Result<Option<Taken>, Rejection> {
        let Self { site, core, permits } = self;
        let Permits(Ok(permits)) = permits else {
            let rejection = core.rejection(Reason::InvalidPermits);
            return Err(rejection.with_detail(permits.complaint()));
        };
        let decision = if site.annotation.fallible {
            let patience = core.patience(limits.inner());
            Some(core.acquire(limits, permits, patience).await?)
        } else {
            core.admit(limits, permits).await
        };
        let inner = limits.inner();
        Ok(decision.and_then(|decision| Taken::by(core, inner, permits, &decision)))
    }
}

/// What a call took, until it is known what became of it. Dropped, it is spent.
#[must_use]
#[derive(Debug)]
pub struct Settlement<const N: usize> {
    limits: Limits,
    taken: [Option<Taken>; N],
    /// Which of the attributes are compiled to give permits back.
    settles: [bool; N],
}

impl<const N: usize> Settlement<N> {
    /// Gives the permits of a call that failed back, where its limits say so.
    pub async fn settle(self, failed: bool) {
        if !failed {
            return;
        }
        let limits = self.limits.inner();
        for (taken, settles) in self.taken.into_iter().zip(self.settles) {
            if let Some(taken) = taken.filter(|taken| settles && taken.is_refunded(limits)) {
                taken.give_back(limits).await;
            }
        }
    }
}
