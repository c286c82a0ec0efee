//! The permits of a call: from the requests of its attributes to what it keeps of them.
//!
//! One attribute or several take the same way. A single request that needs neither the store nor a wait is decided
//! before any future is made. Several are decided in the order in which they are written, since each may live on
//! another node; limits whose keys share a hash tag live on one node, and are decided in one step.

use std::sync::Arc;

use super::{CallSite, Key, Part};
use crate::{
    Answer, Limits, Permit, Rejection,
    limiter::{Claim, Core, Patience, Pending, Taken, acquire_together, share_a_slot},
    limits::{Inner, Observer},
};

/// What one attribute requests; nothing if its `skip_if` exempts the call.
#[derive(Debug)]
pub struct Request(Option<Wanted>);

struct Wanted {
    site: &'static CallSite,
    key: Key,
    permits: u64,
}

impl CallSite {
    /// Returns what this attribute requests.
    #[must_use]
    pub fn request(&'static self, permits: u64, parts: &[Part<'_>]) -> Request {
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
#[expect(
    clippy::needless_pass_by_value,
    reason = "borrowed, the requests would be a part of the future"
)]
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
    acquire(requests).await.unwrap_or_else(|_: Rejected| K::of(|_| Permit::of_no_limiter()))
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
            let permits = u32::try_from(*permits).ok()?;
            let reply = core.acquire_at_once(inner, permits, || site.patience(core, inner))?;
            // Most calls keep nothing, and need no decision then.
            if reply.is_ok() && !K::KEEPS && observer.is_none() {
                return Some(Ok(K::of(|_| Permit::of_no_limiter())));
            }
            let answer = reply.and_then(|reply| core.settle(&reply, permits, false));
            // What cannot leave the function is resolved with the store.
            if answer.is_err() && !site.annotation.fallible {
                return None;
            }
            if let Some(observer) = observer {
                let answer = answer.as_ref().map(|answer| answer.decision(&core.family.key));
                observer.record(&answer.map_err(Clone::clone));
            }
            Some(match answer {
                Ok(answer) => Ok(K::of(|_| Permit::new(core, limits, permits, &answer))),
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
    permits: u64,
}

/// The answers to a call's attributes, as far as there are any.
type Answers<const N: usize> = [Option<Answer>; N];

impl<const N: usize> Call<N> {
    async fn decide<K: Kept<N>>(self) -> Result<K, Rejected> {
        let Self { limits, observer, members } = self;
        let mut answers = [const { None }; N];
        let result = match take_together(&members, &limits, &mut answers).await {
            Some(result) => result,
            None => take_in_order(&members, &limits, &mut answers).await,
        };
        if let Some(observer) = &observer {
            record(observer, &members, &answers, &result);
        }
        let permit = |position: usize| match &members[position] {
            Some(member) => member.permit(&limits, answers[position].as_ref()),
            None => Permit::of_no_limiter(),
        };
        result.map(|()| K::of(permit))
    }
}

fn record<const N: usize>(
    observer: &Observer,
    members: &[Option<Member>; N],
    answers: &Answers<N>,
    result: &Result<(), Rejected>,
) {
    if let Err((_, rejection)) = result {
        return observer.record(&Err(rejection.clone()));
    }
    for (member, answer) in members.iter().zip(answers) {
        if let (Some(member), Some(answer)) = (member, answer) {
            observer.record(&Ok(answer.decision(&member.core.family.key)));
        }
    }
}

async fn take_in_order<const N: usize>(
    members: &[Option<Member>; N],
    limits: &Limits,
    answers: &mut Answers<N>,
) -> Result<(), Rejected> {
    let mut pending = Pending::<N>::new(limits);
    for (position, member) in members.iter().enumerate() {
        let Some(member) = member else { continue };
        match member.take(limits).await {
            Ok(answer) => {
                let taken = answer.as_ref().and_then(|answer| member.taken(limits, answer));
                pending.put(position, taken);
                answers[position] = answer;
            }
            Err(rejection) => {
                // Admitted calls need no room for it.
                Box::pin(pending.give_back()).await;
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
    answers: &mut Answers<N>,
) -> Option<Result<(), Rejected>> {
    let asked = || members.iter().enumerate().filter_map(|(n, one)| Some((n, one.as_ref()?)));
    if !share_a_slot(asked().map(|(_, member)| &member.core)) {
        return None;
    }
    let claims: Vec<Claim> =
        asked().map(|(_, member)| member.claim(limits)).collect::<Option<_>>()?;
    match acquire_together(limits, &claims).await? {
        Ok(all) => {
            asked().zip(all).for_each(|((position, _), answer)| answers[position] = Some(answer));
            Some(Ok(()))
        }
        Err((position, rejection)) => {
            let (position, member) = asked().nth(position)?;
            // What cannot leave the function is resolved where the attribute is asked alone.
            member.site.annotation.fallible.then_some(Err((position, rejection)))
        }
    }
}

impl Member {
    /// What it asks in one step with the others; `None` if that needs no counting.
    fn claim(&self, limits: &Limits) -> Option<Claim> {
        let permits = u32::try_from(self.permits).ok().filter(|permits| *permits > 0)?;
        let patience = self.site.patience(&self.core, limits.inner());
        Some(Claim { core: Arc::clone(&self.core), permits, patience })
    }

    /// Returns `None` if the call goes ahead without an answer.
    async fn take(&self, limits: &Limits) -> Result<Option<Answer>, Rejection> {
        let Self { site, core, permits } = self;
        let inner = limits.inner();
        match u32::try_from(*permits) {
            Ok(0) => Ok(Some(core.free(inner))),
            Ok(permits) if site.annotation.fallible => {
                core.acquire(limits, permits, core.patience(inner)).await.map(Some)
            }
            Ok(permits) => Ok(core.admit(limits, permits).await),
            Err(_) => core.refuse_oversized(inner, *permits).map(Some),
        }
    }

    /// What an answer took; nothing if the call was free.
    fn taken(&self, limits: &Limits, answer: &Answer) -> Option<Taken> {
        let permits = u32::try_from(self.permits).ok().filter(|permits| *permits > 0)?;
        Taken::by(Arc::clone(&self.core), limits.inner(), permits, answer)
    }

    fn permit(&self, limits: &Limits, answer: Option<&Answer>) -> Permit {
        match (u32::try_from(self.permits), answer) {
            (Ok(permits @ 1..), Some(answer)) => Permit::new(&self.core, limits, permits, answer),
            (_, Some(answer)) => Permit::of_nothing(&self.core, answer),
            (_, None) => Permit::of_nothing(&self.core, &self.core.free(limits.inner())),
        }
    }
}

impl std::fmt::Debug for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key holds values of the caller.
        f.debug_struct("Wanted").field("permits", &self.permits).finish_non_exhaustive()
    }
}
