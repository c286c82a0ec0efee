//! Handles one request, from its head to its response, independently of the framework.

use http::{request, response};

use super::{
    compiled::{Compiled, Held, Started},
    outcomes::{self, Outcome},
};
use crate::{
    Decision, Limits, Rejection,
    limits::{Call, Observer},
};

impl Compiled {
    /// Takes the permits of a request, and adds the decision to its extensions.
    pub(super) async fn admit(&self, request: &mut request::Parts) -> Result<Held, Rejection> {
        let current;
        let limits = match &self.limits {
            Some(limits) => limits,
            None => {
                current = Limits::current();
                &current
            }
        };
        let observer = Observer::current();
        let mut started = self.start(limits, request);
        if let Some(observer) = &observer {
            match &mut started {
                Ok(Started::Held(held)) => {
                    held.iter_mut().flatten().for_each(|permit| observer.record_permit(permit));
                }
                // The call reports what becomes of it.
                Ok(Started::Claims(_)) => {}
                Err(rejection) => observer.record(Err(rejection.clone())),
            }
        }
        let held = match started? {
            Started::Held(held) => held,
            Started::Claims(claims) => {
                let call = Call::new(limits, observer.as_ref(), claims);
                // On the heap, so that the future of a request that does not wait stays small.
                Box::pin(call.acquire()).await.map_err(|(_, rejection)| rejection)?
            }
        };
        note(&held, request);
        Ok(held)
    }

    /// Settles the permits of a request by its response, and describes the limits in that response.
    pub(super) fn finish(
        &self,
        mut held: Held,
        inside: &[Outcome],
        response: &mut response::Parts,
    ) {
        self.settle(&mut held, response);
        let outcomes = decisions(&held).map(Ok).chain(inside.iter().map(Outcome::as_ref));
        outcomes::describe(self.headers, outcomes, response);
    }
}

fn decisions(held: &Held) -> impl Iterator<Item = &Decision> + Clone {
    held.iter().flatten().map(|permit| &**permit)
}

/// Adds the decision to the request, combined with that of an outer layer.
fn note(held: &Held, request: &mut request::Parts) {
    let outer = request.extensions.remove::<Decision>();
    if let Some(decision) = outcomes::strictest(outer.iter().chain(decisions(held))) {
        request.extensions.insert(decision);
    }
}
