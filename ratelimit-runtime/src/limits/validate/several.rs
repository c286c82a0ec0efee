//! Validates several limits on one key against the places that use it.

use ratelimit_spec::Settings;

use super::place;
use crate::{Problem, ProblemKind, annotation::Annotation};

/// Reports a call site with several limits and another with one rate or window.
pub(super) fn beside_one(key: &str, sites: &[&Annotation]) -> Option<Problem> {
    let first = |which: fn(&Settings) -> bool| sites.iter().find(|site| which(&site.settings()));
    let one = first(|said| said.rate.is_some() || said.per.is_some())?;
    let several = first(|said| said.limits.is_some())?;
    let message = format!(
        "`{key}` has `limits` here, but `rate` or `per` at {}; functions with the same key share one \
         limiter, so write the same value or remove one",
        place(one),
    );
    let problem = Problem::new(ProblemKind::Conflict, message);
    Some(problem.at(place(several)).of(key).about("limits"))
}
