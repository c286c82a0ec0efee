//! Handles one request, from its head to its response, independently of the framework.

use http::{request, response};

use super::{
    compiled::{Compiled, Held},
    outcomes::{self, Outcome},
};
use crate::{
    Decision, Limits, Rejection,
    limits::{Observer, Scoped},
};

/// A request that was admitted.
pub(super) struct Admitted {
    held: Held,
}

impl Compiled {
    /// Takes the permits of a request, and adds the decision to its extensions.
    pub(super) async fn admit(&self, request: &mut request::Parts) -> Result<Admitted, Rejection> {
        let current;
        let limits = match &self.limits {
            Some(limits) => limits,
            None => {
                current = Limits::current();
                &current
            }
        };
        let observer = Observer::current();
        let taken = match self.start(limits, request) {
            Ok(started) => started.finish(limits).await,
            Err(rejection) => Err(rejection),
        };
        match taken {
            Ok(mut held) => {
                if let Some(observer) = observer {
                    held.iter_mut().for_each(|(_, permit)| observer.record_permit(permit));
                }
                note(&held, request);
                Ok(Admitted { held })
            }
            Err(rejection) => {
                if let Some(observer) = observer {
                    observer.record(Err(rejection.clone()));
                }
                Err(rejection)
            }
        }
    }

    /// Calls the inner service with the layer's limits, which it may look up before its future is polled, and observes
    /// it.
    pub(super) fn run<F: Future>(&self, call: impl FnOnce() -> F) -> (Observer, Scoped<F>) {
        Observer::of(self.limits.as_ref(), call)
    }
}

impl Admitted {
    /// Settles the permits of the request by its response, and describes the limits in that response.
    pub(super) fn finish(
        mut self,
        compiled: &Compiled,
        inside: &[Outcome],
        response: &mut response::Parts,
    ) {
        compiled.settle(&mut self.held, response);
        let outcomes = decisions(&self.held).map(Ok).chain(inside.iter().map(Outcome::as_ref));
        outcomes::describe(compiled.headers, outcomes, response);
    }
}

fn decisions(held: &Held) -> impl Iterator<Item = &Decision> + Clone {
    held.iter().map(|(_, permit)| &**permit)
}

/// Adds the decision to the request, combined with that of an outer layer.
fn note(held: &Held, request: &mut request::Parts) {
    let outer = request.extensions.remove::<Decision>();
    if let Some(decision) = outcomes::strictest(outer.iter().chain(decisions(held))) {
        request.extensions.insert(decision);
    }
}
