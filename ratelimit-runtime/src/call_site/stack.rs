//! The limits of a call that has several, or that may give its permits back.
//!
//! They are decided one after the other in the order they are written, since each may live on
//! another node. What the earlier ones took is given back when a later one refuses. Limits whose keys
//! share a hash tag live on one node, and are decided in one step.

use std::sync::Arc;

use ratelimit_spec::Wait;

use super::{CallSite, Key, Permits};
use crate::{
    Limits, Rejection,
    limiter::{Claim, Core, Taken, acquire, admit},
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
    let positions: Vec<usize> = (0..N).filter(|n| requests[*n].is_some()).collect();
    let claims: Vec<Claim> =
        requests.into_iter().flatten().map(|request| request.claim(&limits)).collect();
    let mut taken = [const { None }; N];
    if claims.iter().any(|claim| claim.fallible) {
        let granted = acquire(&limits, claims)
            .await
            .map_err(|(n, rejection)| (positions[n], rejection))?;
        positions.into_iter().zip(granted).for_each(|(n, got)| taken[n] = Some(got.taken));
    } else {
        let granted = admit(&limits, claims).await;
        positions.into_iter().zip(granted).for_each(|(n, got)| taken[n] = got.map(|got| got.taken));
    }
    Ok(Settlement { taken, settles, limits })
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
struct Request {
    site: &'static CallSite,
    core: Arc<Core>,
    permits: Permits,
}

impl Request {
    fn new(Ask { site, key, permits }: Ask, limits: &Limits) -> Self {
        Self { site, core: site.with_core(limits, &key, Arc::clone), permits }
    }

    fn claim(self, limits: &Limits) -> Claim {
        let fallible = self.site.annotation.fallible;
        let wait = if fallible { self.core.wait(limits.inner()) } else { Wait::Forever };
        Claim { core: self.core, permits: self.permits.0, wait, fallible }
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
        for (taken, settles) in self.taken.into_iter().zip(self.settles) {
            if let Some(taken) = taken.filter(|taken| settles && taken.is_refunded(self.limits.inner())) {
                taken.give_back(&self.limits).await;
            }
        }
    }
}
