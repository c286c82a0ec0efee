//! The algorithm, and the settings of token buckets.

use std::time::Duration;

use ratelimit_spec::{Algorithm, Per, check_warm_up};
use syn::Expr;

use super::Declared;
use crate::args::{Arg, Args, Number, Slot};
use crate::problems::Problems;

/// Returns the algorithm as far as it is known at compile time, or `None` if its name is unknown.
pub(super) fn algorithm(
    args: &Args,
    given: Option<Algorithm>,
    declared: &Declared<'_>,
) -> Option<Algorithm> {
    if given.is_none() && !args.algorithm.is_absent() {
        return None;
    }
    let own = declared.entry_settings().and_then(|settings| settings.algorithm);
    let default = declared.default_settings().and_then(|settings| settings.algorithm);
    Some(own.or(given).or(default).unwrap_or_default())
}

/// A `burst` that has no effect would mislead readers. The limits file may set another algorithm.
pub(super) fn burst_is_a_buckets(
    args: &Args,
    algorithm: Option<Algorithm>,
    declared: &Declared<'_>,
    problems: &mut Problems,
) {
    let own = declared.entry_settings().and_then(|settings| settings.algorithm);
    let (Some(burst), Some(algorithm), None) = (args.burst.given(), algorithm, own) else {
        return;
    };
    if algorithm != Algorithm::TokenBucket {
        problems.at(
            burst.name.span(),
            format!(
                "`burst` requires `token_bucket`, but the algorithm is `{algorithm}`; write \
                 `algorithm = \"token_bucket\"`, or remove `burst`"
            ),
        );
    }
}

/// Both `warm_up` and `burst` set the capacity of a token bucket, which no other algorithm has.
pub(super) fn warm_up_is_a_buckets(
    args: &Args,
    warm_up: Option<Duration>,
    algorithm: Option<Algorithm>,
    declared: &Declared<'_>,
    problems: &mut Problems,
) {
    // Beside several limits it is refused already.
    let Some(written) = args.warm_up.given().filter(|_| args.limits.is_absent()) else { return };
    if let Some(burst) = args.burst.given() {
        problems.at(
            written.name.span(),
            "`warm_up` cannot be combined with `burst`; remove one of them",
        );
        problems.on(&burst.name, "`burst` is set here");
        return;
    }
    let own = declared.entry_settings().and_then(|settings| settings.algorithm);
    if let (Some(algorithm), None) = (algorithm, own)
        && algorithm != Algorithm::TokenBucket
    {
        problems.at(
            written.name.span(),
            format!(
                "`warm_up` requires `token_bucket`, but the algorithm is `{algorithm}`; write \
                 `algorithm = \"token_bucket\"`, or remove `warm_up`"
            ),
        );
        return;
    }
    if let (Some(warm_up), Some((rate, _))) = (warm_up, literal(&args.rate))
        && let Err(error) = check_warm_up(rate.into(), warm_up)
    {
        problems.on(&written.value, error);
    }
}

/// The annotation's numbers must be exact even if the file overrides them.
pub(super) fn can_be_counted(
    args: &Args,
    given: Option<Algorithm>,
    per: Option<Per>,
    problems: &mut Problems,
) {
    let (Some(algorithm), Some(per), Some((rate, rate_source))) = (given, per, literal(&args.rate))
    else {
        return;
    };
    let burst = literal(&args.burst);
    if burst.is_none() && !args.burst.is_absent() {
        return;
    }
    let rule = algorithm.rule(burst.map_or(rate, |(burst, _)| burst));
    if let Err(error) = rule.check(rate.into(), per.length) {
        let burst = burst.filter(|_| error.name() == "burst");
        problems.on(burst.map_or(rate_source, |(_, source)| source), error);
    }
}

fn literal(slot: &Slot<Number>) -> Option<(u32, &Expr)> {
    match slot.given()? {
        Arg { value: Number::Literal { value, source }, .. } => {
            Some((u32::try_from(*value).ok()?, source))
        }
        Arg { value: Number::Code(_), .. } => None,
    }
}
