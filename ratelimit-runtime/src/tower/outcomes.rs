//! The decisions of all calls of a request, in its answer.

use http::response;

use crate::{
    Decision, Rejection,
    web::{Headers, Reported},
};

/// The outcome of one limit, or of one attribute.
pub(super) type Outcome = Result<Decision, Rejection>;

/// Describes the limits of a request in its answer; changes nothing if there were none.
pub(super) fn describe(headers: Headers, outcomes: &[Outcome], response: &mut response::Parts) {
    let Some(decision) = strictest(outcomes) else {
        return describe_rejection(headers, outcomes, response);
    };
    let rejection = rejection_of(outcomes, response);
    headers.write(Reported { decision: Some(&decision), rejection }, &mut response.headers);
    let rejected = rejection.and_then(Rejection::decision);
    response.extensions.insert(rejected.unwrap_or(&decision).clone());
}

/// The same where no limit decided anything.
fn describe_rejection(headers: Headers, outcomes: &[Outcome], response: &mut response::Parts) {
    if let Some(rejection) = rejection_of(outcomes, response) {
        headers.write(Reported::rejected(rejection), &mut response.headers);
    }
}

/// The rejection that the answer is about. A handler may have answered otherwise.
fn rejection_of<'a>(outcomes: &'a [Outcome], response: &response::Parts) -> Option<&'a Rejection> {
    let is_error = response.status.is_client_error() || response.status.is_server_error();
    outcomes.iter().filter(|_| is_error).find_map(|outcome| outcome.as_ref().err())
}

/// The strictest decision of each limiter, together.
pub(super) fn strictest(outcomes: &[Outcome]) -> Option<Decision> {
    let decisions = outcomes.iter().filter_map(|outcome| match outcome {
        Ok(decision) => Some(decision),
        Err(rejection) => rejection.decision(),
    });
    let mut of_limiters: Vec<&Decision> = Vec::new();
    for decision in decisions {
        match of_limiters.iter_mut().find(|known| known.limiter() == decision.limiter()) {
            Some(known) if decision.is_stricter_than(known) => *known = decision,
            Some(_) => {}
            None => of_limiters.push(decision),
        }
    }
    of_limiters.into_iter().cloned().reduce(Decision::and)
}
