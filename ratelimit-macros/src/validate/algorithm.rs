//! How permits are counted, and what only a token bucket has.

use std::time::Duration;

use ratelimit_spec::{Algorithm, Per, check_warm_up};
use syn::Expr;

use super::Declared;
use crate::args::{Arg, Args, Number, Slot};
use crate::problems::Problems;

/// The rule in force as far as it is known while compiling; unknown when the word for it is.
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

/// A burst that nothing has would mislead whoever reads it. The limits file may turn the bucket
/// into something else.
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
                "`burst` is what a token bucket holds, and this is a `{algorithm}`; write \
                 `algorithm = \"token_bucket\"`, or remove `burst`"
            ),
        );
    }
}

/// A warm-up says what is stored, as a burst does, and only a token bucket has either.
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
            "`warm_up` says how much a token bucket stores, and so does `burst`; remove one of the two",
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
                "`warm_up` is what a token bucket can do, and this is a `{algorithm}`; write \
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

/// What is written in the annotation has to be countable, whatever the file says.
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
