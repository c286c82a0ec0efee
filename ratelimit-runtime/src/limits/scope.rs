//! The limits that apply to the running code, and the observer of its calls.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::task::futures::TaskLocalFuture;

use super::{INSTALLED, Limits, LimitsBuilder};
use crate::{Decision, Permit, Rejection, limiter::Fate, registry::Sites};

tokio::task_local! {
    static SCOPE: Scope;
}

/// Whether any code of this process had a scope. Until then, calls do not look for one.
static SCOPED: AtomicBool = AtomicBool::new(false);

/// The limits and the observer of the running code.
#[derive(Clone, Default)]
pub(crate) struct Scope {
    limits: Option<Limits>,
    observer: Option<Observer>,
}

/// A future with a scope.
type Scoped<F> = TaskLocalFuture<Scope, F>;

/// The outcome of one attribute of a call.
type Observed = Result<Decision, Rejection>;

/// Collects the outcomes of the calls within one [`observe`] or one request, and passes them to those around it.
#[derive(Clone)]
pub(crate) struct Observer(Arc<Slot>);

/// An outcome, and what the permit of the call did to it.
#[derive(Clone)]
struct Entry {
    outcome: Observed,
    /// `None` if the call keeps no permit.
    permit: Option<Fate>,
}

/// Adds an outcome to those before it.
type Add = fn(&mut Vec<Entry>, Entry);

struct Slot {
    entries: Mutex<Vec<Entry>>,
    add: Add,
    outer: Option<Observer>,
}

impl Observer {
    /// Returns the observer of the running code.
    #[cfg(feature = "tower")]
    pub(crate) fn current() -> Option<Self> {
        Scope::look(|scope| scope.observer.clone()).flatten()
    }

    /// Observes the call of a service and its future, which run with these limits, or with those of the calling code. Keeps
    /// the outcomes that describe the request, because a request can make any number of calls.
    #[cfg(feature = "tower")]
    pub(crate) fn of<F: Future>(
        limits: Option<&Limits>,
        call: impl FnOnce() -> F,
    ) -> (Self, impl Future<Output = F::Output>) {
        Self::adding(add_strictest, limits, call)
    }

    fn adding<F: Future>(
        add: Add,
        limits: Option<&Limits>,
        call: impl FnOnce() -> F,
    ) -> (Self, impl Future<Output = F::Output>) {
        let outer = Scope::current();
        let slot = Slot { entries: Mutex::default(), add, outer: outer.observer };
        let observer = Self(Arc::new(slot));
        let limits = limits.cloned().or(outer.limits);
        let scope = Scope { limits, observer: Some(observer.clone()) };
        (observer, scope.around(async move { call().await }))
    }

    /// Returns the outcomes so far, in the order in which they were decided.
    pub(crate) fn outcomes(&self) -> Vec<Observed> {
        let entries = &self.0.entries;
        let entries = std::mem::take(&mut *entries.lock().unwrap_or_else(PoisonError::into_inner));
        entries.into_iter().map(Entry::into_outcome).collect()
    }

    /// Records a call that keeps no permit.
    pub(crate) fn record(&self, outcome: Observed) {
        self.add(Entry { outcome, permit: None });
    }

    /// Records an admitted call, and what becomes of its permit.
    pub(crate) fn record_permit(&self, permit: &mut Permit) {
        let fate = Fate::default();
        self.add(Entry { outcome: Ok((**permit).clone()), permit: Some(Arc::clone(&fate)) });
        permit.observe(fate);
    }

    fn add(&self, entry: Entry) {
        let Slot { entries, add, outer } = &*self.0;
        if let Some(outer) = outer {
            outer.add(entry.clone());
        }
        add(&mut entries.lock().unwrap_or_else(PoisonError::into_inner), entry);
    }
}

impl Entry {
    fn into_outcome(self) -> Observed {
        let settled = self.permit.and_then(|fate| fate.get().cloned().flatten());
        settled.map_or(self.outcome, Ok)
    }

    /// Returns the decision, unless a permit can still change it.
    #[cfg(feature = "tower")]
    fn last_decision(&self) -> Option<&Decision> {
        let settled = match &self.permit {
            Some(fate) => fate.get()?.as_ref(),
            None => None,
        };
        settled.or(self.outcome.as_ref().ok())
    }
}

/// Keeps the last rejection of each limiter, and at least the strictest decision. A decision that a permit can still
/// change is kept, because it may not be the strictest in the end.
#[cfg(feature = "tower")]
fn add_strictest(entries: &mut Vec<Entry>, entry: Entry) {
    if let Err(rejection) = &entry.outcome {
        let is_same = |known: &Rejection| known.limiter() == rejection.limiter();
        entries.retain(|known| !known.outcome.as_ref().is_err_and(is_same));
    } else if entries.len() == entries.capacity() {
        *entries = strictest(std::mem::take(entries));
    }
    entries.push(entry);
}

#[cfg(feature = "tower")]
fn strictest(entries: Vec<Entry>) -> Vec<Entry> {
    let mut kept: Vec<Entry> = Vec::new();
    for entry in entries {
        let same = entry.last_decision().and_then(|decision| {
            kept.iter_mut().find_map(|known| {
                let last = known.last_decision()?;
                let is_stricter = decision.is_stricter_than(last);
                (last.limiter() == decision.limiter()).then_some((known, is_stricter))
            })
        });
        match same {
            Some((known, true)) => *known = entry,
            Some((_, false)) => {}
            None => kept.push(entry),
        }
    }
    kept
}

fn note_scope() {
    // Written once, because all threads read it.
    if !SCOPED.load(Ordering::Relaxed) {
        SCOPED.store(true, Ordering::Relaxed);
    }
}

/// Returns the limits of a program that installed none.
#[cold]
fn unattended() -> &'static Limits {
    let mut events = Vec::new();
    let limits = INSTALLED.get_or_init(|| {
        let limits;
        (limits, events) = LimitsBuilder::unattended();
        limits
    });
    // A log may call rate-limited functions itself, which need the limits.
    events.iter().for_each(|event| limits.services().events.emit(event));
    limits
}

impl Limits {
    /// Returns the limits of the program if the running code has no scope.
    #[inline]
    pub(crate) fn unscoped() -> Option<&'static Self> {
        Scope::look(|_| ()).is_none().then(Self::installed)
    }

    /// The same without a look at the running code, if this process never had a scope.
    #[inline(always)]
    pub(crate) fn without_scopes() -> Option<&'static Self> {
        if SCOPED.load(Ordering::Relaxed) { None } else { INSTALLED.get() }
    }

    #[inline]
    fn installed() -> &'static Self {
        INSTALLED.get().unwrap_or_else(unattended)
    }

    /// Returns what these limits know of each call site.
    #[inline(always)]
    pub(crate) fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Calls a function with the limits of the running code, and with its observer. The function may run code of the
    /// program that enters another scope, such as an event handler.
    pub(crate) fn with_scope<T>(run: impl FnOnce(&Self, Option<&Observer>) -> T) -> T {
        match Self::unscoped() {
            Some(limits) => run(limits, None),
            None => Self::in_scope(run),
        }
    }

    /// The same for running code that has a scope.
    pub(crate) fn in_scope<T>(run: impl FnOnce(&Self, Option<&Observer>) -> T) -> T {
        let Scope { limits, observer } = Scope::current();
        run(limits.as_ref().unwrap_or_else(|| Self::installed()), observer.as_ref())
    }

    /// Runs a part of a request with these limits, or with those of the calling code.
    #[cfg(feature = "tower")]
    pub(crate) fn during<T>(limits: Option<&Self>, run: impl FnOnce() -> T) -> T {
        match limits {
            Some(limits) => {
                note_scope();
                SCOPE.sync_scope(Scope::with(limits), run)
            }
            None => run(),
        }
    }
}

impl Scope {
    /// Calls a function with the scope of the running code, if it has one.
    #[inline(always)]
    fn look<T>(run: impl FnOnce(&Self) -> T) -> Option<T> {
        if SCOPED.load(Ordering::Relaxed) { SCOPE.try_with(run).ok() } else { None }
    }

    fn current() -> Self {
        Self::look(Clone::clone).unwrap_or_default()
    }

    /// Returns a future that runs in this scope.
    pub(super) fn around<F: Future>(self, future: F) -> Scoped<F> {
        note_scope();
        SCOPE.scope(self, future)
    }

    /// Returns the current scope with other limits and the same observer.
    pub(super) fn with(limits: &Limits) -> Self {
        Self { limits: Some(limits.clone()), ..Self::current() }
    }
}

/// Runs a future, and returns its output with the outcomes of the annotated calls inside, in the order in which they were
/// decided.
///
/// An admitted call has one [`Decision`] for each of its attributes, except for attributes whose
/// `skip_if` exempts it. A rejected call has one [`Rejection`], even if its function converted that
/// into something else. Calls of tasks that the future spawns are not observed.
///
/// # Examples
///
/// ```
/// use ratelimit_runtime::{Limits, Rejection, observe, rate_limit};
///
/// #[rate_limit(key = "lookup", rate = 2, per = "1h", wait = "none")]
/// async fn search() -> Result<(), Rejection> {
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Limits::builder().memory().build().await?;
/// let (result, outcomes) = limits.scope(observe(search())).await;
/// assert!(result.is_ok());
/// assert!(outcomes[0].is_ok());
/// # Ok(())
/// # }
/// ```
pub async fn observe<F: Future>(future: F) -> (F::Output, Vec<Result<Decision, Rejection>>) {
    let add: Add = |entries, entry| entries.push(Entry { permit: None, ..entry });
    // Boxed, because the scope is unknown before the first poll, and moving the future would store it twice.
    let (observer, future) = Observer::adding(add, None, || Box::pin(future));
    (future.await, observer.outcomes())
}
