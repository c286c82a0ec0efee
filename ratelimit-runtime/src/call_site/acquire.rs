//! Acquires the permits of a call: from the requests of its attributes to the permits that it holds.
//!
//! A single request that needs neither the store nor a wait is decided before any future is created.
//! Several requests are decided atomically if one store call can do it; in a cluster, requests whose
//! keys share no hash tag are decided in source order.

use std::{
    fmt,
    future::{Future, poll_fn, ready},
    mem::{self, ManuallyDrop},
    pin::Pin,
    sync::Arc,
    task::{self, Context, Poll},
};

use ratelimit_spec::{KeyName, Wait};

use super::{CallSite, Key, Part, rendered};
use crate::{
    Limits, Permit, Rejection,
    clock::Counted,
    limiter::{self, Claim, Core, Services},
    limits::{Call, Observer},
};

/// The request of one attribute; empty if its `skip_if` exempts the call.
#[derive(Debug)]
pub struct Request(Option<Wanted>);

struct Wanted {
    site: &'static CallSite,
    key: Key,
    permits: u64,
}

/// What is left of a call of one attribute that keeps no permit: nothing if it was granted at once. Two words, which a
/// function returns in registers. Resolves to the rejection, if the call was rejected.
#[must_use = "a rejected call must not go on"]
pub struct Acquire(
    /// Dropped by hand, so that the usual call only tests it.
    ManuallyDrop<Option<Unfinished>>,
);

enum Unfinished {
    Rejected(Rejection),
    /// On the heap: few calls have work left, and the futures of all others stay small.
    Undecided(Box<Undecided>),
}

type Undecided = Pin<Box<dyn Future<Output = Option<Rejection>> + Send>>;

impl CallSite {
    /// Takes the permits of a call that has no other attribute, and keeps no permit.
    // Within the annotated function, which knows whether its key has parts.
    #[inline]
    pub fn acquire(&'static self, permits: u64, parts: &[Part<'_>]) -> Acquire {
        match parts {
            [] => self.acquire_fixed(permits),
            parts => self.acquire_rendered(permits, parts),
        }
    }

    #[inline(never)]
    fn acquire_fixed(&'static self, permits: u64) -> Acquire {
        let known = |limits: &'static Limits| {
            let known = limits.sites().get(&self.number)?;
            Some((limits.services(), known.only.as_ref()?))
        };
        match Limits::without_scopes().and_then(known) {
            Some((services, core)) if spends_allotted(services, core, permits) => Acquire::GRANTED,
            Some((services, core)) => self.acquire_known(services, core, permits),
            None => self.acquire_fixed_apart(permits),
        }
    }

    // Apart, because a call first saves the registers that its function needs.
    #[inline(never)]
    fn acquire_known(&'static self, services: &Services, core: &Core, permits: u64) -> Acquire {
        let is_spent = u32::try_from(permits).is_ok_and(|permits| core.spend(services, permits));
        if is_spent { Acquire::GRANTED } else { self.begin(permits, Key(None)) }
    }

    #[inline(never)]
    fn acquire_fixed_apart(&'static self, permits: u64) -> Acquire {
        let is_spent = Limits::with_scope(|limits, observer| {
            let spend = |core: &Arc<Core>| {
                u32::try_from(permits).is_ok_and(|permits| core.spend(limits.services(), permits))
            };
            observer.is_none()
                && self.with_known(limits, |known| known.only.as_ref().is_some_and(spend))
        });
        if is_spent { Acquire::GRANTED } else { self.begin(permits, Key(None)) }
    }

    // Apart, because a rendered key is large.
    #[inline(never)]
    fn acquire_rendered(&'static self, permits: u64, parts: &[Part<'_>]) -> Acquire {
        let left = match Limits::unscoped() {
            Some(limits) => self.spend_rendered(limits, permits, parts),
            None => self.spend_rendered_in_scope(permits, parts),
        };
        match left {
            None => Acquire::GRANTED,
            name => self.begin(permits, Key(name)),
        }
    }

    #[inline(never)]
    fn spend_rendered_in_scope(&self, permits: u64, parts: &[Part<'_>]) -> Option<KeyName> {
        Limits::in_scope(|limits, observer| match observer {
            None => self.spend_rendered(limits, permits, parts),
            Some(_) => self.key(limits, parts).0,
        })
    }

    /// Takes the permits of a call that is not observed, if this process counts the limiter and they are free.
    /// Most calls need no more. Returns the name of the limiter of a call that does.
    #[inline(always)]
    fn spend_rendered(&self, limits: &Limits, permits: u64, parts: &[Part<'_>]) -> Option<KeyName> {
        self.with_known(limits, |known| {
            let name = rendered(&known.template, parts);
            let (services, family) = (limits.services(), &known.declared.family);
            let is_spent = u32::try_from(permits)
                .is_ok_and(|permits| limiter::spend(services, family, &name, permits));
            if is_spent { None } else { Some(name) }
        })
    }

    // Separate from a call that only spends its permits.
    #[inline(never)]
    fn begin(&'static self, permits: u64, key: Key) -> Acquire {
        let request = Request(Some(Wanted { site: self, key, permits }));
        Acquire(ManuallyDrop::new(match begin(&[request], false) {
            Begun::Decided(Ok(_)) => None,
            Begun::Decided(Err((_, rejection))) => Some(Unfinished::Rejected(rejection)),
            Begun::Undecided(call) => Some(Unfinished::Undecided(Box::new(Box::pin(async move {
                call.acquire().await.err().map(|(_, rejection)| rejection)
            })))),
        }))
    }

    /// Returns the request of this attribute.
    #[must_use]
    pub fn request(&'static self, permits: u64, parts: &[Part<'_>]) -> Request {
        let key = match parts {
            [] => Key(None),
            parts => Limits::with_scope(|limits, _| self.key(limits, parts)),
        };
        Request(Some(Wanted { site: self, key, permits }))
    }

    /// Returns how long a call waits; a function that cannot return a rejection waits as long as necessary.
    fn wait(&self, core: &Core, services: &Services) -> Wait {
        match self.annotation.fallible {
            true => core.wait(services, self.annotation.wait),
            false => Wait::Forever,
        }
    }
}

/// Takes permits that are allotted to the calls of a limiter.
#[inline(always)]
fn spends_allotted(services: &Services, core: &Core, permits: u64) -> bool {
    // Reading the counter calls a function, before which all that is used after it is saved. So the rest is looked at after it.
    if let Some(slot) = core.allotting()
        && let Some(counted) = Counted::now()
    {
        return core.spend_allotted(services, slot, permits, counted);
    }
    false
}

impl Request {
    /// The request of an attribute that exempts the call.
    #[must_use]
    pub fn skipped() -> Self {
        Self(None)
    }
}

impl Acquire {
    const GRANTED: Self = Self(ManuallyDrop::new(None));

    /// Of an attribute that exempts the call.
    pub fn skipped() -> Self {
        Self::GRANTED
    }

    fn take(&mut self) -> Option<Unfinished> {
        ManuallyDrop::into_inner(mem::replace(&mut self.0, ManuallyDrop::new(None)))
    }

    /// Polls what is unfinished; it is gone when that is ready.
    #[inline(never)]
    fn poll_apart(&mut self, context: &mut Context<'_>) -> Poll<Option<Rejection>> {
        if let Some(Unfinished::Undecided(rest)) = &mut *self.0 {
            let rejection = task::ready!(Pin::as_mut(rest).poll(context));
            self.drop_apart();
            return Poll::Ready(rejection);
        }
        match self.take() {
            Some(Unfinished::Rejected(rejection)) => Poll::Ready(Some(rejection)),
            _ => Poll::Ready(None),
        }
    }

    #[inline(never)]
    fn drop_apart(&mut self) {
        drop(self.take());
    }
}

impl Future for Acquire {
    type Output = Option<Rejection>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Rejection>> {
        if self.0.is_none() {
            return Poll::Ready(None);
        }
        let poll = self.poll_apart(context);
        if poll.is_ready() {
            // It is empty already. Written here too, so that rustc can leave out the drop.
            self.0 = ManuallyDrop::new(None);
        }
        poll
    }
}

impl Drop for Acquire {
    // Within the annotated function: most calls have nothing to drop.
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.is_some() {
            self.drop_apart();
        }
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
pub fn acquire<const N: usize>(
    requests: [Request; N],
) -> impl Future<Output = Result<[Permit; N], Rejected>> {
    let mut begun = match begin(&requests, true) {
        Begun::Decided(result) => Ok(ready(result.map(|permit| all([permit])))),
        Begun::Undecided(call) => Err(Box::pin(call.acquire())),
    };
    poll_fn(move |context| match &mut begun {
        Ok(result) => Pin::new(result).poll(context),
        Err(rest) => rest.as_mut().poll(context).map(|permits| permits.map(all)),
    })
}

/// Takes the permits of all requests, none of which can reject the call.
pub fn admit<const N: usize>(requests: [Request; N]) -> impl Future<Output = [Permit; N]> {
    let permits = acquire(requests);
    // Such an attribute never rejects a call; if one did, nothing would be taken.
    async move { permits.await.unwrap_or_else(|_| all([])) }
}

/// Returns the permit of each attribute.
fn all<const N: usize>(permits: impl IntoIterator<Item = Option<Permit>>) -> [Permit; N] {
    let mut permits = permits.into_iter();
    std::array::from_fn(|_| permits.next().flatten().unwrap_or_else(Permit::of_no_limiter))
}

enum Begun {
    /// Without a permit if the call keeps none.
    Decided(Result<Option<Permit>, Rejected>),
    Undecided(Call),
}

/// Decides a call that needs neither the store nor a wait. The keys of another call are resolved, so that
/// its future does not hold them.
fn begin(requests: &[Request], keeps: bool) -> Begun {
    Limits::with_scope(|limits, observer| {
        // A limiter is looked up once per call.
        let mut found = None;
        if let [Request(Some(wanted))] = requests {
            match wanted.at_once(limits, observer, keeps) {
                Ok(result) => return Begun::Decided(result.map_err(|rejection| (0, rejection))),
                Err(core) => found = core,
            }
        }
        let claim = |Request(wanted): &Request| {
            let Wanted { site, key, permits } = wanted.as_ref()?;
            let core = found.take().unwrap_or_else(|| site.with_core(limits, key, Arc::clone));
            let (wait, fallible) = (site.wait(&core, limits.services()), site.annotation.fallible);
            Some(Claim { core, permits: *permits, wait, fallible })
        };
        Begun::Undecided(Call::new(limits, observer, requests.iter().map(claim)))
    })
}

impl Wanted {
    /// Decides the call; returns no permit if it keeps none. Fails if the call needs more than that, with the
    /// limiter if it was looked up.
    fn at_once(
        &self,
        limits: &Limits,
        observer: Option<&Observer>,
        keeps: bool,
    ) -> Result<Result<Option<Permit>, Rejection>, Option<Arc<Core>>> {
        let Self { site, key, permits } = self;
        let permits = u32::try_from(*permits).map_err(|_| None)?;
        if !keeps && let Some(decided) = site.decide(limits, key, permits) {
            if let Some(observer) = observer {
                observer.record(decided.clone());
            }
            return Ok(decided.map(|_| None));
        }
        site.with_core(limits, key, |core| {
            let services = limits.services();
            let reply = core.acquire_at_once(services, permits, || site.wait(core, services));
            let reply = reply.ok_or_else(|| Some(Arc::clone(core)))?;
            if reply.is_ok() && !keeps && observer.is_none() {
                return Ok(Ok(None));
            }
            let mut permit = reply.map(|granted| Permit::at_once(core, granted, permits));
            if let Some(observer) = observer {
                match &mut permit {
                    Ok(permit) if keeps => observer.record_permit(permit),
                    Ok(permit) => observer.record(Ok((**permit).clone())),
                    Err(rejection) => observer.record(Err(rejection.clone())),
                }
            }
            Ok(permit.map(Some))
        })
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key contains values of the caller.
        f.debug_struct("Wanted").field("permits", &self.permits).finish_non_exhaustive()
    }
}
