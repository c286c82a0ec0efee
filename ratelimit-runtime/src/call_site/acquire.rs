//! Acquires the permits of a call: from the requests of its attributes to the permits that it holds.
//!
//! One or several attributes use the same path. A single request that needs neither the store nor a
//! wait is decided before any future is created. Several requests are decided atomically if one store
//! call can do it; in a cluster, requests whose keys share no hash tag are decided in source order.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use ratelimit_spec::Wait;

use super::{CallSite, Key, Part};
use crate::{
    Decision, Limits, Permit, Rejection,
    limiter::{self, Claim, Core, Services},
    limits::Observer,
};

/// The request of one attribute; empty if its `skip_if` exempts the call.
#[derive(Debug)]
pub struct Request(Option<Wanted>);

struct Wanted {
    site: &'static CallSite,
    key: Key,
    permits: u64,
}

impl CallSite {
    /// Returns the request of this attribute.
    #[inline]
    #[must_use]
    pub fn request(&'static self, permits: u64, parts: &[Part<'_>]) -> Request {
        Request(Some(Wanted { site: self, key: self.key(parts), permits }))
    }

    /// Returns how long a call waits; a function that cannot return a rejection waits as long as necessary.
    fn wait(&self, core: &Core, services: &Services) -> Wait {
        if self.annotation.fallible { core.wait(services) } else { Wait::Forever }
    }
}

/// Returns the request of an attribute that exempts the call.
#[must_use]
pub fn skipped() -> Request {
    Request(None)
}

/// The permits that a call keeps: none, or the permit of each attribute.
pub trait Kept<const N: usize>: Sized + Unpin {
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
#[inline]
pub fn acquire<const N: usize, K: Kept<N>>(
    requests: [Request; N],
) -> impl Future<Output = Result<K, Rejected>> {
    take(requests, |permits| permits)
}

/// Takes the permits of all requests, none of which can reject the call.
#[inline]
pub fn admit<const N: usize, K: Kept<N>>(requests: [Request; N]) -> impl Future<Output = K> {
    // Such an attribute never rejects a call; if one did, nothing would be taken.
    take(requests, |permits: Result<K, Rejected>| permits.unwrap_or_else(|_| nothing()))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "borrowed, the requests would be a part of the future"
)]
#[inline]
fn take<const N: usize, K: Kept<N>, T>(
    requests: [Request; N],
    finish: impl Fn(Result<K, Rejected>) -> T + Unpin,
) -> impl Future<Output = T> {
    let mut begun =
        if !K::KEEPS && spend(&requests) { Ok(Some(Ok(nothing()))) } else { begin(&requests) };
    // Takes half the instructions of an `async` block, which moves its captures.
    poll_fn(move |context| match &mut begun {
        Ok(result) => Poll::Ready(finish(result.take().expect("polled after it was ready"))),
        Err(rest) => go_on(rest, context).map(&finish),
    })
}

/// The result of a call, or its remaining work.
type Begun<K> = Result<Option<Result<K, Rejected>>, Rest>;

fn nothing<const N: usize, K: Kept<N>>() -> K {
    K::of(|_| Permit::of_no_limiter())
}

// Shared by all annotated functions, and separate from a call that only spends its permits.
#[inline(never)]
fn begin<const N: usize, K: Kept<N>>(requests: &[Request; N]) -> Begun<K> {
    match start(requests, K::KEEPS) {
        Started::Granted => Ok(Some(Ok(nothing()))),
        Started::Decided(result) => Ok(Some(result.map(|permit| kept(Some(permit))))),
        Started::Undecided(rest) => Err(rest),
    }
}

#[inline(never)]
fn go_on<const N: usize, K: Kept<N>>(
    rest: &mut Rest,
    context: &mut Context<'_>,
) -> Poll<Result<K, Rejected>> {
    rest.as_mut().poll(context).map(|result| result.map(kept))
}

fn kept<const N: usize, K: Kept<N>>(permits: impl IntoIterator<Item = Permit>) -> K {
    let mut permits = permits.into_iter();
    K::of(|_| permits.next().unwrap_or_else(Permit::of_no_limiter))
}

/// The remaining work of a call, on the heap: few calls have any, and the futures of all others stay small.
type Rest = Pin<Box<dyn Future<Output = Result<Vec<Permit>, Rejected>> + Send>>;

enum Started {
    /// Granted to a call that holds no permits.
    Granted,
    Decided(Result<Permit, Rejected>),
    Undecided(Rest),
}

/// Takes the permits of a call that does not hold them and is not observed, if this process counts
/// the limiter and they are free. Most calls need no more.
fn spend(requests: &[Request]) -> bool {
    let [Request(Some(Wanted { site, key, permits }))] = requests else { return false };
    let Ok(permits) = u32::try_from(*permits) else { return false };
    Limits::with_scope(|limits, observer| observer.is_none() && site.spend(limits, key, permits))
}

/// Decides calls that need neither the store nor a wait. The keys of other calls are resolved, so
/// that their futures do not hold them.
fn start(requests: &[Request], keeps: bool) -> Started {
    Limits::with_scope(|limits, observer| {
        // A limiter is looked up once per call.
        let mut found = None;
        if let [Request(Some(wanted))] = requests {
            match wanted.at_once(limits, observer, keeps) {
                Ok(started) => return started,
                Err(core) => found = core,
            }
        }
        let claim = |Request(wanted): &Request| {
            let Wanted { site, key, permits } = wanted.as_ref()?;
            let core = found.take().unwrap_or_else(|| site.with_core(limits, key, Arc::clone));
            let (wait, fallible) = (site.wait(&core, limits.services()), site.annotation.fallible);
            Some(Claim { core, permits: *permits, wait, fallible })
        };
        let call = Call {
            services: Arc::clone(limits.services()),
            observer: observer.cloned(),
            claims: requests.iter().filter_map(claim).collect(),
            skipped: requests.iter().map(|Request(wanted)| wanted.is_none()).collect(),
        };
        Started::Undecided(Box::pin(async move {
            let permits = limiter::acquire(&call.services, &call.claims).await;
            call.keep(permits.map(Vec::from))
        }))
    })
}

impl Wanted {
    /// Fails if the call needs more than that, with the limiter if it was looked up.
    fn at_once(
        &self,
        limits: &Limits,
        observer: Option<&Observer>,
        keeps: bool,
    ) -> Result<Started, Option<Arc<Core>>> {
        let Self { site, key, permits } = self;
        let permits = u32::try_from(*permits).map_err(|_| None)?;
        if !keeps && let Some(decided) = site.decide(limits, key, permits) {
            if let Some(observer) = observer {
                observer.record(&decided);
            }
            return Ok(match decided {
                Ok(_) => Started::Granted,
                Err(rejection) => Started::Decided(Err((0, rejection))),
            });
        }
        let keeps = keeps || observer.is_some();
        site.with_core(limits, key, |core| {
            let services = limits.services();
            let reply = core.acquire_at_once(services, permits, || site.wait(core, services));
            let reply = reply.ok_or_else(|| Some(Arc::clone(core)))?;
            if reply.is_ok() && !keeps {
                return Ok(Started::Granted);
            }
            let permit = reply.map(|granted| Permit::at_once(core, granted, permits));
            if let Some(observer) = observer {
                let told = permit.as_ref().map(|permit| (**permit).clone());
                observer.record(&told.map_err(Clone::clone));
            }
            Ok(Started::Decided(permit.map_err(|rejection| (0, rejection))))
        })
    }
}

/// A call whose limiters are known.
struct Call {
    services: Arc<Services>,
    observer: Option<Observer>,
    claims: Vec<Claim>,
    /// Whether each attribute exempts it.
    skipped: Vec<bool>,
}

impl Call {
    /// Reports what the limiters decided, and returns the permit of each attribute.
    fn keep(&self, result: Result<Vec<Option<Permit>>, Rejected>) -> Result<Vec<Permit>, Rejected> {
        let observed = |outcome: &dyn Fn() -> Result<Decision, Rejection>| {
            self.observer.iter().for_each(|observer| observer.record(&outcome()));
        };
        match result {
            Ok(permits) => {
                let mut permits = permits.into_iter();
                let permit = |skipped: &bool| {
                    let permit = if *skipped { None } else { permits.next().flatten() };
                    let Some(permit) = permit else { return Permit::of_no_limiter() };
                    observed(&|| Ok((*permit).clone()));
                    permit
                };
                Ok(self.skipped.iter().map(permit).collect())
            }
            Err((n, rejection)) => {
                observed(&|| Err(rejection.clone()));
                let mut positions = (0..self.skipped.len()).filter(|n| !self.skipped[*n]);
                Err((positions.nth(n).unwrap_or(n), rejection))
            }
        }
    }
}

impl std::fmt::Debug for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key contains values of the caller.
        f.debug_struct("Wanted").field("permits", &self.permits).finish_non_exhaustive()
    }
}
