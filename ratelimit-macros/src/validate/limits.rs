//! Several limits on one key.

use std::time::Duration;

use ratelimit_spec::{Algorithm, Limit, MAX_LIMITS, Per, check_limits};
use syn::Expr;

use super::numbers::{Permits, number};
use super::read;
use crate::args::{self, Arg, Args, Number};
use crate::problems::Problems;

/// The limits as code can be generated from them; `None` when there are none, or a mistake.
pub(super) fn limits(
    args: &Args,
    algorithm: Option<Algorithm>,
    problems: &mut Problems,
) -> Option<Vec<(Expr, Duration)>> {
    let given = args.limits.given()?;
    let beside = [args.rate.name(), args.per.name(), args.burst.name()];
    for name in beside.into_iter().flatten() {
        // The list holds pairs of a rate and a window.
        let instead =
            if name == "burst" { "set it in the limits file" } else { "add a pair to the list" };
        problems.at(
            name.span(),
            format!("`{name}` cannot be combined with `limits`; {instead}, or remove `{name}`"),
        );
        problems.at(given.name.span(), "`limits` is set here");
    }
    if let Some(warm_up) = args.warm_up.name() {
        problems
            .at(warm_up.span(), "`warm_up` cannot be combined with `limits`; remove one of them");
        problems.at(given.name.span(), "`limits` is set here");
    }
    if given.value.is_empty() || given.value.len() > MAX_LIMITS {
        let n_limits = given.value.len();
        problems.at(
            given.name.span(),
            format!("`limits` has {n_limits} entries; write 1 to {MAX_LIMITS}"),
        );
        return None;
    }
    let read: Vec<_> = given
        .value
        .iter()
        .map(|limit| (number(&limit.rate, problems), read(&limit.per, Per::parse_length, problems)))
        .collect();
    together(&given.value, &read, algorithm.unwrap_or_default(), problems);
    read.into_iter().map(|(rate, per)| rate.zip(per)).collect()
}

/// Checks the limits whose numbers are literals; the rest are checked at startup.
fn together(
    written: &[args::Limit],
    read: &[(Option<Expr>, Option<Duration>)],
    algorithm: Algorithm,
    problems: &mut Problems,
) {
    let known = written.iter().zip(read).filter_map(|(written, (rate, per))| {
        let limit = Limit::new(literal(rate.as_ref().and(Some(&written.rate))?)?, (*per)?);
        Some((limit, &written.source))
    });
    let (limits, sources): (Vec<Limit>, Vec<&Expr>) = known.unzip();
    for problem in check_limits(&limits, algorithm) {
        problems.on(sources[problem.index], problem);
    }
}

/// A call that costs more than one of the limits would wait forever.
pub(super) fn permits_fit_all(args: &Args, permits: Option<Permits<'_>>, problems: &mut Problems) {
    let (Some(given), Some(Permits::Fixed(permits))) = (args.limits.given(), permits) else {
        return;
    };
    let Some(Arg { value: Number::Literal { source, .. }, .. }) = args.permits.given() else {
        return;
    };
    for limit in &given.value {
        if let Some(rate @ 1..) = literal(&limit.rate)
            && permits > rate
        {
            let per = limit.per.value();
            problems.on(
                source,
                format!("`permits` is {permits}, but one limit is {rate} per `{per}`, so no call can succeed; lower `permits`, or raise the limit"),
            );
        }
    }
}

fn literal(rate: &Arg<Number>) -> Option<u32> {
    match rate.value {
        Number::Literal { value, .. } => u32::try_from(value).ok(),
        Number::Code(_) => None,
    }
}
