//! Describes the decisions of all calls of a request in its response.

use std::iter;

use http::response;

use crate::{
    Decision, Rejection,
    rejection::is_rejected,
    web::{Headers, Reported},
};

/// The outcome of one limit, or of one attribute.
pub(super) type Outcome = Result<Decision, Rejection>;

/// Describes the limits of a request in its response; changes nothing if there were none.
pub(super) fn describe<'a>(
    headers: Headers,
    outcomes: impl Iterator<Item = Result<&'a Decision, &'a Rejection>> + Clone,
    response: &mut response::Parts,
) {
    let is_rejected = outcomes.clone().any(|outcome| outcome.is_err())
        && is_rejected(response.status, &response.headers);
    let admitted = outcomes.clone().filter_map(Result::ok);
    // A rejected response may be about any rejection.
    let outcomes = outcomes.filter(|outcome| {
        is_rejected || !outcome.is_err_and(|it| is_outdated(it, admitted.clone()))
    });
    // The rejection that the response is about: a handler goes on after earlier ones. It may have responded otherwise.
    let rejection = outcomes.clone().filter_map(Result::err).last().filter(|_| is_rejected);
    let is_decided = outcomes.clone().any(|it| it.map_or_else(Rejection::decision, Some).is_some());
    let described = outcomes.filter_map(|outcome| outcome.map_or_else(Rejection::limits, Some));
    let Some(decision) = strictest(described) else {
        if let Some(rejection) = rejection {
            headers.write(Reported::rejected(rejection), &mut response.headers);
        }
        return;
    };
    headers.write(Reported { decision: Some(&decision), rejection }, &mut response.headers);
    let rejected = rejection.and_then(Rejection::decision).cloned();
    // A rejection that was not counted is no decision.
    if is_decided {
        response.extensions.insert(rejected.unwrap_or(decision));
    }
}

/// Returns whether the limiter admitted a call after the wait of a rejection, such as that of a request which a service
/// between two layers sent again.
fn is_outdated<'a>(
    rejection: &Rejection,
    mut admitted: impl Iterator<Item = &'a Decision>,
) -> bool {
    let rejected_at = rejection.limits().map(Decision::at);
    let over = rejected_at.zip(rejection.retry_after()).and_then(|(at, wait)| at.checked_add(wait));
    let is_after = |it: &Decision| over.is_some_and(|over| it.at() >= over);
    admitted.any(|it| it.limiter() == rejection.limiter() && is_after(it))
}

/// Combines the strictest decision of each limiter.
pub(super) fn strictest<'a>(mut decisions: impl Iterator<Item = &'a Decision>) -> Option<Decision> {
    let first = decisions.next()?;
    let Some(second) = decisions.next() else { return Some(first.clone()) };
    let mut of_limiters = vec![first];
    for decision in iter::once(second).chain(decisions) {
        match of_limiters.iter_mut().find(|known| known.limiter() == decision.limiter()) {
            Some(known) if decision.is_stricter_than(known) => *known = decision,
            Some(_) => {}
            None => of_limiters.push(decision),
        }
    }
    of_limiters.into_iter().cloned().reduce(Decision::and)
}
