//! Handles one request, from its head to its response, independently of the framework.

use http::{request, response};

use super::{
    compiled::{Compiled, Held},
    outcomes::{self, Outcome},
};
use crate::{Decision, Limits, Rejection, limits::Observer};

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
        let mut taken = match self.start(limits, request) {
            Ok(started) => started.finish(limits).await,
            Err(rejection) => Err(rejection),
        };
        if let Some(observer) = observer {
            match &mut taken {
                Ok(held) => held.iter_mut().for_each(|(_, permit)| observer.record_permit(permit)),
                Err(rejection) => observer.record(Err(rejection.clone())),
            }
        }
        taken.inspect(|held| note(held, request))
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
    held.iter().map(|(_, permit)| &**permit)
}

/// Adds the decision to the request, combined with that of an outer layer.
fn note(held: &Held, request: &mut request::Parts) {
    let outer = request.extensions.remove::<Decision>();
    if let Some(decision) = outcomes::strictest(outer.iter().chain(decisions(held))) {
        request.extensions.insert(decision);
    }
}
