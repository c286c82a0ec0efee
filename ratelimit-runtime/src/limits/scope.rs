//! The limits that apply to the running code, and the observer of its calls.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::futures::TaskLocalFuture;

use super::{INSTALLED, Limits, LimitsBuilder};
use crate::{Decision, Rejection};

tokio::task_local! {
    pub(super) static SCOPE: Scope;
}

/// The limits and the observer of the running code.
#[derive(Clone, Default)]
pub(crate) struct Scope {
    limits: Option<Limits>,
    observer: Option<Observer>,
}

/// A future with a scope.
pub(crate) type Scoped<F> = TaskLocalFuture<Scope, F>;

/// The outcome of one attribute of a call.
type Observed = Result<Decision, Rejection>;

/// Collects the outcomes of the calls within one [`observe`] or one request, and passes them to those around it.
#[derive(Clone)]
pub(crate) struct Observer(Arc<Slot>);

/// Adds an outcome to those before it.
type Add = fn(&mut Vec<Observed>, &Observed);

struct Slot {
    outcomes: Mutex<Vec<Observed>>,
    add: Add,
    outer: Option<Observer>,
}

impl Observer {
    /// Returns the observer of the running code.
    #[cfg(feature = "tower")]
    pub(crate) fn current() -> Option<Self> {
        Scope::current().observer
    }

    /// Observes the call of a service and its future, which run with these limits, or with those of the calling code. Keeps
    /// the outcomes that describe the request, because a request can make any number of calls.
    #[cfg(feature = "tower")]
    pub(crate) fn of<F: Future>(
        limits: Option<&Limits>,
        call: impl FnOnce() -> F,
    ) -> (Self, Scoped<F>) {
        Self::adding(add_strictest, limits, call)
    }

    fn adding<F: Future>(
        add: Add,
        limits: Option<&Limits>,
        call: impl FnOnce() -> F,
    ) -> (Self, Scoped<F>) {
        let outer = Scope::current();
        let slot = Slot { outcomes: Mutex::default(), add, outer: outer.observer };
        let observer = Self(Arc::new(slot));
        let limits = limits.cloned().or(outer.limits);
        let scope = Scope { limits, observer: Some(observer.clone()) };
        let future = SCOPE.sync_scope(scope.clone(), call);
        (observer, SCOPE.scope(scope, future))
    }

    /// Returns the outcomes so far, in the order in which they were decided.
    pub(crate) fn outcomes(&self) -> Vec<Observed> {
        std::mem::take(&mut *self.0.outcomes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn record(&self, outcome: &Observed) {
        let Slot { outcomes, add, outer } = &*self.0;
        add(&mut outcomes.lock().unwrap_or_else(PoisonError::into_inner), outcome);
        if let Some(outer) = outer {
            outer.record(outcome);
        }
    }
}

/// Keeps the strictest decision and the last rejection of each limiter.
#[cfg(feature = "tower")]
fn add_strictest(outcomes: &mut Vec<Observed>, outcome: &Observed) {
    match outcome {
        Ok(decision) => {
            let is_same = |known: &&mut Decision| known.limiter() == decision.limiter();
            if let Some(known) = outcomes.iter_mut().flatten().find(is_same) {
                if decision.is_stricter_than(known) {
                    *known = decision.clone();
                }
                return;
            }
        }
        Err(rejection) => {
            let is_same = |known: &Rejection| known.limiter() == rejection.limiter();
            outcomes.retain(|known| !known.as_ref().is_err_and(is_same));
        }
    }
    outcomes.push(outcome.clone());
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
    events.iter().for_each(|event| limits.services.events.emit(event));
    limits
}

impl Limits {
    /// Calls a function with the limits of the running code, and with its observer.
    pub(crate) fn with_scope<T>(run: impl Fn(&Self, Option<&Observer>) -> T) -> T {
        let installed = || INSTALLED.get().unwrap_or_else(unattended);
        let scoped = SCOPE.try_with(|scope| {
            let limits = scope.limits.as_ref().unwrap_or_else(|| installed());
            run(limits, scope.observer.as_ref())
        });
        scoped.unwrap_or_else(|_| run(installed(), None))
    }

    /// Runs a part of a request with these limits, or with those of the calling code.
    #[cfg(feature = "tower")]
    pub(crate) fn during<T>(limits: Option<&Self>, run: impl FnOnce() -> T) -> T {
        match limits {
            Some(limits) => SCOPE.sync_scope(Scope::with(limits), run),
            None => run(),
        }
    }
}

impl Scope {
    fn current() -> Self {
        SCOPE.try_with(Clone::clone).unwrap_or_default()
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
    let add: Add = |outcomes, outcome| outcomes.push(outcome.clone());
    // Boxed, because the scope is unknown before the first poll, and moving the future would store it twice.
    let (observer, future) = Observer::adding(add, None, || Box::pin(future));
    (future.await, observer.outcomes())
}
