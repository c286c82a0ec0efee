//! Several limits on one key against the places that use it.

use ratelimit_spec::Settings;

use super::place;
use crate::{
    Quota,
    annotation::{Annotation, Cost},
    settings::{Effective, Source},
};

/// One call site with several limits and another with one rate or window.
pub(super) fn beside_one(key: &str, sites: &[&Annotation]) -> Option<String> {
    let first = |which: fn(&Settings) -> bool| sites.iter().find(|site| which(&site.settings()));
    let one = first(|said| said.rate.is_some() || said.per.is_some())?;
    let several = first(|said| said.limits.is_some())?;
    Some(format!(
        "{}: `{key}` has `limits` here and one `rate` or `per` at {}; functions with one key share one \
         limiter, write the same or leave it out",
        place(several),
        place(one),
    ))
}

/// A cost that one of several limits can never grant.
pub(super) fn above_a_limit(
    key: &str,
    site: &Annotation,
    effective: &Effective,
    at: &dyn Fn(&str) -> String,
) -> Option<String> {
    let Cost::Literal(permits) = site.cost else { return None };
    let limits = effective.limits.as_ref()?;
    let short = |quota: &&Quota| u64::from(permits) > quota.capacity();
    let quota = limits.value.iter().find(short)?;
    let (here, source) =
        (place(site), if limits.source <= Source::LimitsFile { at("limits") } else { place(site) });
    Some(format!(
        "{here}: `{key}` takes {permits} permits a call, but {source} limits it to {quota}; no call would \
         ever get through"
    ))
}
