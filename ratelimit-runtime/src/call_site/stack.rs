//! The limits of a call that has several, or that may give its permits back.
//!
//! They are decided one after the other in the order they are written, since each may live on
//! another node. What the earlier ones took is given back when a later one refuses. Limits whose keys
//! share a hash tag live on one node, and are decided in one step.

use std::sync::Arc;

use super::{CallSite, Key, Permits};
use crate::{
    Limits, Rejection,
    limiter::{Claim, Core, Patience, Pending, Taken, acquire_together, share_a_slot},
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
    let costly = |ask: &Ask| ask.permits.0 > 0;
    let requests = asked.map(|Asked(ask)| ask.filter(costly).map(|ask| Request::new(ask, &limits)));
    let settles = requests
        .each_ref()
        .map(|request| request.as_ref().is_some_and(|request| request.site.annotation.settles));
    let mut pending = Pending::new(&limits);
    if let Some(result) = take_together(&requests, &limits, &mut pending).await {
        return result.map(|()| Settlement { taken: pending.keep(), settles, limits });
    }
    for (position, request) in requests.into_iter().enumerate() {
        let Some(request) = request else { continue };
        match request.take(&limits).await {
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

/// Takes the permits of all attributes in one step; nothing where that cannot be.
async fn take_together<const N: usize>(
    requests: &[Option<Request>; N],
    limits: &Limits,
    pending: &mut Pending<N>,
) -> Option<Result<(), (usize, Rejection)>> {
    let asked = || requests.iter().enumerate().filter_map(|(n, one)| Some((n, one.as_ref()?)));
    if !share_a_slot(asked().map(|(_, request)| &request.core)) {
        return None;
    }
    let claims: Vec<Claim> =
        asked().map(|(_, request)| request.claim(limits)).collect::<Option<_>>()?;
    match acquire_together(limits, &claims).await? {
        Ok(decisions) => {
            for (((position, _), claim), decision) in asked().zip(claims).zip(decisions) {
                let Claim { core, permits, .. } = claim;
                pending.put(position, Taken::by(core, limits.inner(), permits, &decision));
            }
            Some(Ok(()))
        }
        Err((position, rejection)) => {
            let (position, request) = asked().nth(position)?;
            // What cannot leave the function is settled where it is asked alone.
            request.site.annotation.fallible.then_some(Err((position, rejection)))
        }
    }
}

/// One attribute's request, and the limiter it goes to.
struct Request {
    site: &'static CallSite,
    core: Arc<Core>,
    permits: Permits,
}

impl Request {
    fn new(Ask { site, key, permits }: Ask, limits: &Limits) -> Self {
        Self { site, core: site.with_core(limits, &key, Arc::clone), permits }
    }

    /// What it asks in one step with the others.
    fn claim(&self, limits: &Limits) -> Option<Claim> {
        let permits = self.permits.count()?;
        let patience = match self.site.annotation.fallible {
            true => self.core.patience(limits.inner()),
            false => Patience::Forever,
        };
        Some(Claim { core: Arc::clone(&self.core), permits, patience })
    }

    async fn take(self, limits: &Limits) -> Result<Option<Taken>, Rejection> {
        let Self { site, core, permits } = self;
        let Some(permits) = permits.count() else {
            return core.refuse_oversized(limits.inner(), permits.0).map(|_| None);
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
