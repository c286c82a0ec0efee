//! Several limits on one key against the places that use it.

use ratelimit_spec::Settings;

use super::{place, refused};
use crate::{
    Problem, ProblemKind, Quota,
    annotation::{Annotation, Cost},
    error::Place,
    report::Source,
    settings::Effective,
};

/// One call site with several limits and another with one rate or window.
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

/// A cost that one of several limits can never grant.
pub(super) fn above_a_limit(
    key: &str,
    site: &Annotation,
    effective: &Effective,
    at: &dyn Fn(&str) -> Place,
) -> Option<Problem> {
    let Cost::Literal(permits) = site.cost else { return None };
    let limits = effective.set.limits.as_ref()?;
    let short = |quota: &&Quota| u64::from(permits) > quota.capacity();
    let quota = effective.quotas.iter().find(short)?;
    let (here, source) =
        (place(site), if limits.source <= Source::LimitsFile { at("limits") } else { place(site) });
    let message = format!(
        "`{key}` costs {permits} permits per call, but {source} limits it to {quota}, so no call can \
         succeed; lower `permits`, or raise the rate"
    );
    Some(refused(here, key, "limits", message))
}
