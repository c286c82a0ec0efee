//! Keys that can render the same name.

use ratelimit_spec::Template;

use super::{Sites, place};
use crate::{Problem, ProblemKind, annotation::Annotation};

/// One name is one limiter in the store, but two different keys each have a quota. Reports at most
/// one problem per key, with the first other key.
pub(super) fn check(by_key: &Sites, problems: &mut Vec<Problem>) {
    let keys = by_key.iter().filter_map(|(key, sites)| {
        let template = Template::parse(key).ok()?;
        Some((template, *sites.first()?))
    });
    let mut keys: Vec<_> = keys.collect();
    keys.sort_by_key(|(_, site)| site.location());
    let (fixed, templates): (Vec<_>, Vec<_>) =
        (0..keys.len()).partition(|n| keys[*n].0.is_static());
    for (n, (template, site)) in keys.iter().enumerate() {
        // Two fixed keys are either different or the same.
        let fixed = if template.is_static() { &[][..] } else { &fixed };
        let earlier = templates.iter().chain(fixed).filter(|earlier| **earlier < n);
        let first = earlier.filter(|earlier| template.overlaps(&keys[**earlier].0)).min();
        problems.extend(first.map(|first| problem(site, keys[*first].1)));
    }
}

fn problem(second: &Annotation, first: &Annotation) -> Problem {
    let message = format!(
        "`{}` can be the same name as `{}` at {}, and one name is one limiter; write one key for both, or \
         start one of them differently",
        second.key,
        first.key,
        place(first),
    );
    Problem::new(ProblemKind::Conflict, message).at(place(second)).of(second.key)
}
