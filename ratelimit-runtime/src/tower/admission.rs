//! One request, from its head to what its answer says; the same for every framework.

use http::{request, response};

use super::{
    compiled::{Compiled, Held, take},
    outcomes::{self, Outcome},
};
use crate::{
    Decision, Limits, Rejection,
    limits::{Observer, observe},
};

/// A request that was admitted.
pub(super) struct Admitted {
    held: Held,
    outcomes: Vec<Outcome>,
}

impl Compiled {
    /// Takes what a request needs, and puts the decision into its extensions.
    pub(super) async fn admit(&self, request: &mut request::Parts) -> Result<Admitted, Rejection> {
        let (limits, observer) = (self.limits.clone(), Observer::current());
        let limits = limits.unwrap_or_else(Limits::current);
        let taken = match self.claims(&limits, request) {
            Ok(claims) => take(&limits, claims).await,
            Err(rejection) => Err(rejection),
        };
        let record = |outcome: &Outcome| {
            if let Some(observer) = &observer {
                observer.record(outcome);
            }
        };
        match taken {
            Ok(held) => {
                let decision = |(_, permit): &(_, crate::Permit)| Ok(Decision::clone(permit));
                let outcomes: Vec<Outcome> = held.iter().map(decision).collect();
                outcomes.iter().for_each(record);
                note(&outcomes, request);
                Ok(Admitted { held, outcomes })
            }
            Err(rejection) => {
                record(&Err(rejection.clone()));
                Err(rejection)
            }
        }
    }

    /// Runs the inner service with the limits of the layer, and observes it.
    pub(super) async fn run<F: Future>(&self, call: F) -> (F::Output, Vec<Outcome>) {
        match &self.limits {
            Some(limits) => limits.scope(observe(call)).await,
            None => observe(call).await,
        }
    }
}

impl Admitted {
    /// Settles what the request holds by its response, and describes the limits in that.
    pub(super) fn finish(
        self,
        compiled: &Compiled,
        inside: Vec<Outcome>,
        response: &mut response::Parts,
    ) {
        let Self { held, mut outcomes } = self;
        outcomes.extend(inside);
        compiled.settle(held, response);
        outcomes::describe(compiled.headers, &outcomes, response);
    }
}

/// Puts the decision into the request, together with that of a layer outside of this one.
fn note(outcomes: &[Outcome], request: &mut request::Parts) {
    let outer = request.extensions.remove::<Decision>().map(Ok);
    let all: Vec<Outcome> = outer.into_iter().chain(outcomes.iter().cloned()).collect();
    if let Some(decision) = outcomes::strictest(&all) {
        request.extensions.insert(decision);
    }
}
