//! The permits of a call: from the requests of its attributes to what it keeps of them.
//!
//! One attribute or several take the same way. A single request that needs neither the store nor a wait is decided
//! before any future is made. Several are decided in the order in which they are written, since each may live on
//! another node; limits whose keys share a hash tag live on one node, and are decided in one step.

use std::sync::Arc;

use super::{CallSite, Key, Part};
use crate::{
    Decision, Limits, Permit, Rejection,
    limiter::{Claim, Core, Patience, Pending, Taken, acquire_together, share_a_slot},
    limits::{Inner, Observer},
};

/// What one attribute requests; nothing if its `skip_if` exempts the call.
#[derive(Debug)]
pub struct Request(Option<Wanted>);

struct Wanted {
    site: &'static CallSite,
    key: Key,
    permits: u32,
}

impl CallSite {
    /// Returns what this attribute requests.
    #[must_use]
    pub fn request(&'static self, permits: u64, parts: &[Part<'_>]) -> Request {
        // No limiter holds as many, so the call is rejected for asking more than the limiter can grant.
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        Request(Some(Wanted { site: self, key: self.key(parts), permits }))
    }

    /// How long a call waits; a function that cannot return a rejection waits as long as it takes.
    fn patience(&self, core: &Core, limits: &Inner) -> Patience {
        if self.annotation.fallible { core.patience(limits) } else { Patience::Forever }
    }
}

/// Returns the request of an attribute that exempts the call.
#[must_use]
pub fn skipped() -> Request {
    Request(None)
}

/// What a call keeps of its permits: nothing, or the permit of each attribute.
pub trait Kept<const N: usize>: Sized {
    #[doc(hidden)]
    const KEEPS: bool;

    #[doc(hidden)]
    fn of(permit: impl FnMut(usize) -> Permit) -> Self;
}

impl<const N: usize> Kept<N> for () {
    const KEEPS: bool = false;

    fn of(_: impl FnMut(usize) -> Permit) -> Self {}
}

impl<const N: usize> Kept<N> for [Permit; N] {
    const KEEPS: bool = true;

    fn of(permit: impl FnMut(usize) -> Permit) -> Self {
        std::array::from_fn(permit)
    }
}

/// Why a call got no permits, and the position of the attribute that rejected it.
type Rejected = (usize, Rejection);

/// Takes the permits of all requests, or none.
///
/// # Errors
///
/// Returns the position of the attribute that rejects the call, and its reason.
pub fn acquire<const N: usize, K: Kept<N>>(
    requests: [Request; N],
) -> impl Future<Output = Result<K, Rejected>> {
    let started = Limits::with_scope(|limits, observer| start(limits, observer, &requests));
    async move {
        match started {
            Started::Decided(result) => result,
            Started::Undecided(call) => call.decide().await,
        }
    }
}

/// Takes the permits of all requests, none of which can reject the call.
pub async fn admit<const N: usize, K: Kept<N>>(requests: [Request; N]) -> K {
    // No such attribute rejects a call; if one did, nothing would be taken.
    acquire(requests).await.unwrap_or_else(|_: Rejected| K::of(|_| Permit::default()))
}

enum Started<const N: usize, K> {
    Decided(Result<K, Rejected>),
    Undecided(Call<N>),
}

/// Decides what needs neither the store nor a wait. The keys of other calls are resolved, so that their futures do not
/// hold them.
fn start<const N: usize, K: Kept<N>>(
    limits: &Limits,
    observer: Option<&Observer>,
    requests: &[Request; N],
) -> Started<N, K> {
    if let [Request(Some(wanted))] = &requests[..]
        && let Some(result) = wanted.at_once(limits, observer)
    {
        return Started::Decided(result);
    }
    let members = requests.each_ref().map(|Request(wanted)| {
        let Wanted { site, key, permits } = wanted.as_ref()?;
        let core = site.with_core(limits, key, Arc::clone);
        Some(Member { site, core, permits: *permits })
    });
    Started::Undecided(Call { limits: limits.clone(), observer: observer.cloned(), members })
}

impl Wanted {
    fn at_once<const N: usize, K: Kept<N>>(
        &self,
        limits: &Limits,
        observer: Option<&Observer>,
    ) -> Option<Result<K, Rejected>> {
        let Self { site, key, permits } = self;
        site.with_core(limits, key, |core| {
            let inner = limits.inner();
            let patience = || site.patience(core, inner);
            let reply = core.acquire_at_once(inner, *permits, patience)?;
            // Most calls keep nothing, and need no decision then.
            if reply.is_ok() && !K::KEEPS && observer.is_none() {
                return Some(Ok(K::of(|_| Permit::default())));
            }
            let decision = reply.and_then(|reply| core.settle(&reply, *permits, false));
            // What cannot leave the function is resolved with the store.
            if decision.is_err() && !site.annotation.fallible {
                return None;
            }
            if let Some(observer) = observer {
                observer.record(&decision);
            }
            Some(match decision {
                Ok(decision) => Ok(K::of(|_| {
                    let taken = Taken::by(Arc::clone(core), inner, *permits, &decision);
                    Permit::new(limits, taken)
                })),
                Err(rejection) => Err((0, rejection)),
            })
        })
    }
}

/// A call whose limiters are known.
struct Call<const N: usize> {
    limits: Limits,
    observer: Option<Observer>,
    members: [Option<Member>; N],
}

/// One attribute's limiter, and what it is asked for.
struct Member {
    site: &'static CallSite,
    core: Arc<Core>,
    permits: u32,
}

impl<const N: usize> Call<N> {
    async fn decide<K: Kept<N>>(self) -> Result<K, Rejected> {
        let Self { limits, observer, members } = self;
        let mut decisions = [const { None }; N];
        let together = take_together(&members, &limits, &mut decisions).await;
        let result = match together {
            Some(result) => result,
            None => take_in_order(&members, &limits, &mut decisions).await,
        };
        if let Err((position, rejection)) = result {
            if let Some(observer) = &observer {
                observer.record(&Err(rejection.clone()));
            }
            return Err((position, rejection));
        }
        if let Some(observer) = observer {
            let decisions = decisions.iter().flatten().cloned();
            decisions.for_each(|decision| observer.record(&Ok(decision)));
        }
        Ok(K::of(|position| match (&members[position], &decisions[position]) {
            (Some(member), Some(decision)) => Permit::new(&limits, member.taken(&limits, decision)),
            _ => Permit::default(),
        }))
    }
}

/// The decisions of a call's attributes, as far as they were made.
type Decisions<const N: usize> = [Option<Decision>; N];

async fn take_in_order<const N: usize>(
    members: &[Option<Member>; N],
    limits: &Limits,
    decisions: &mut Decisions<N>,
) -> Result<(), Rejected> {
    let mut pending = Pending::<N>::new(limits);
    for (position, member) in members.iter().enumerate() {
        let Some(member) = member else { continue };
        match member.take(limits).await {
            Ok(decision) => {
                let taken = decision.as_ref().and_then(|decision| member.taken(limits, decision));
                pending.put(position, taken);
                decisions[position] = decision;
            }
            Err(rejection) => {
                pending.give_back().await;
                return Err((position, rejection));
            }
        }
    }
    drop(pending.keep());
    Ok(())
}

/// Takes the permits of all attributes in one step. Returns `None` if that is not possible.
async fn take_together<const N: usize>(
    members: &[Option<Member>; N],
    limits: &Limits,
    decisions: &mut Decisions<N>,
) -> Option<Result<(), Rejected>> {
    let asked = || members.iter().enumerate().filter_map(|(n, one)| Some((n, one.as_ref()?)));
    if !share_a_slot(asked().map(|(_, member)| &member.core)) {
        return None;
    }
    let claims: Vec<Claim> = asked().map(|(_, member)| member.claim(limits)).collect();
    match acquire_together(limits, &claims).await? {
        Ok(all) => {
            for ((position, _), decision) in asked().zip(all) {
                decisions[position] = Some(decision);
            }
            Some(Ok(()))
        }
        Err((position, rejection)) => {
            let (position, member) = asked().nth(position)?;
            // What cannot leave the function is settled where it is asked alone.
            member.site.annotation.fallible.then_some(Err((position, rejection)))
        }
    }
}

impl Member {
    /// What it asks in one step with the others.
    fn claim(&self, limits: &Limits) -> Claim {
        let patience = self.site.patience(&self.core, limits.inner());
        Claim { core: Arc::clone(&self.core), permits: self.permits, patience }
    }

    async fn take(&self, limits: &Limits) -> Result<Option<Decision>, Rejection> {
        let Self { site, core, permits } = self;
        if !site.annotation.fallible {
            return Ok(core.admit(limits, *permits).await);
        }
        let patience = core.patience(limits.inner());
        core.acquire(limits, *permits, patience).await.map(Some)
    }

    fn taken(&self, limits: &Limits, decision: &Decision) -> Option<Taken> {
        Taken::by(Arc::clone(&self.core), limits.inner(), self.permits, decision)
    }
}

impl std::fmt::Debug for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key holds values of the caller.
        f.debug_struct("Wanted").field("permits", &self.permits).finish_non_exhaustive()
    }
}
