//! Acquires the permits of a call: from the requests of its attributes to the permits that it holds.
//!
//! A single request that needs neither the store nor a wait is decided before any future is created.
//! Several requests are decided atomically if one store call can do it; in a cluster, requests whose
//! keys share no hash tag are decided in source order.

use std::{
    fmt,
    future::{Future, poll_fn, ready},
    pin::Pin,
    slice,
    sync::Arc,
    task::{Context, Poll},
};

use ratelimit_spec::Wait;

use super::{CallSite, Key, Part};
use crate::{
    Limits, Permit, Rejection,
    clock::Counted,
    limiter::{Claim, Core, Services},
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

/// What is left of a call of one attribute that keeps no permit and was not granted at once. With the `Option` around it, two
/// words, which a function returns in registers.
pub enum Acquire {
    /// It got no permits.
    Rejected(Rejection),
    /// On the heap: few calls have work left, and the futures of all others stay small.
    Undecided(Box<Rest>),
}

type Rest = Pin<Box<dyn Future<Output = Result<(), Rejection>> + Send>>;

impl CallSite {
    /// Takes the permits of a call that has no other attribute, and keeps no permit. Returns what is left to do unless they
    /// were granted at once: most calls have nothing to await, and nothing to drop.
    // Within the annotated function, which knows whether its key has parts.
    #[inline]
    pub fn acquire(&'static self, permits: u64, parts: &[Part<'_>]) -> Option<Acquire> {
        match parts {
            [] => self.acquire_fixed(permits),
            parts => self.acquire_rendered(permits, parts),
        }
    }

    #[inline(never)]
    fn acquire_fixed(&'static self, permits: u64) -> Option<Acquire> {
        if self.spends_allotted(permits) { None } else { self.acquire_fixed_apart(permits) }
    }

    // Apart, because a call first saves the registers that its function needs.
    #[inline(never)]
    fn acquire_fixed_apart(&'static self, permits: u64) -> Option<Acquire> {
        if self.spends(None, permits) { None } else { self.begin_fixed(permits) }
    }

    // Apart, because a request is large.
    #[inline(never)]
    fn begin_fixed(&'static self, permits: u64) -> Option<Acquire> {
        self.request(permits, &[]).begin()
    }

    // Apart, because a rendered key is large.
    #[inline(never)]
    fn acquire_rendered(&'static self, permits: u64, parts: &[Part<'_>]) -> Option<Acquire> {
        let name = self.rendered(parts);
        if self.spends(Some(&name), permits) {
            return None;
        }
        Request(Some(Wanted { site: self, key: Key(Some(name)), permits })).begin()
    }

    /// Takes permits that are allotted to the calls of a key without placeholders that have no scope.
    #[inline(always)]
    fn spends_allotted(&self, permits: u64) -> bool {
        // Reading the counter calls a function, before which all that is used after it is saved. So most is looked at after it.
        if let Some(known) = self.known.of_the_first()
            && let Some(core) = &known.value.only
            && let Some(slot) = core.allotting()
            && let Some(counted) = Counted::now()
            && let Some(limits) = Limits::without_scopes()
            && known.is_of(limits)
        {
            return core.spend_allotted(limits.services(), slot, permits, counted);
        }
        false
    }

    /// Takes the permits of a call that is not observed, if this process counts the limiter and they are
    /// free. Most calls need no more, and most have no scope.
    #[inline(always)]
    fn spends(&self, name: Option<&str>, permits: u64) -> bool {
        match (Limits::unscoped(), u32::try_from(permits)) {
            (Some(limits), Ok(permits)) => self.spend(limits, name, permits),
            (None, Ok(permits)) => self.spends_in_scope(name, permits),
            (_, Err(_)) => false,
        }
    }

    #[inline(never)]
    fn spends_in_scope(&self, name: Option<&str>, permits: u32) -> bool {
        Limits::in_scope(|limits, observer| observer.is_none() && self.spend(limits, name, permits))
    }

    /// Returns the request of this attribute.
    #[must_use]
    pub fn request(&'static self, permits: u64, parts: &[Part<'_>]) -> Request {
        Request(Some(Wanted { site: self, key: self.key(parts), permits }))
    }

    /// Returns how long a call waits; a function that cannot return a rejection waits as long as necessary.
    fn wait(&self, core: &Core, services: &Services) -> Wait {
        match self.annotation.fallible {
            true => core.wait(services, self.annotation.wait),
            false => Wait::Forever,
        }
    }
}

impl Request {
    // Separate from a call that only spends its permits.
    #[inline(never)]
    fn begin(&self) -> Option<Acquire> {
        match begin(slice::from_ref(self), false) {
            Begun::Decided(Ok(_)) => None,
            Begun::Decided(Err((_, rejection))) => Some(Acquire::Rejected(rejection)),
            Begun::Undecided(call) => Some(Acquire::Undecided(Box::new(Box::pin(async move {
                call.acquire().await.map(drop).map_err(|(_, rejection)| rejection)
            })))),
        }
    }
}

impl Future for Acquire {
    type Output = Result<(), Rejection>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Rejected(rejection) => Poll::Ready(Err(rejection.clone())),
            Self::Undecided(rest) => Pin::as_mut(rest).poll(context),
        }
    }
}

/// Returns the request of an attribute that exempts the call.
#[must_use]
pub fn skipped() -> Request {
    Request(None)
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
