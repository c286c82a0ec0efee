//! How permits are counted, and what only a token bucket has.

use ratelimit_spec::{Algorithm, Per};
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
    if let Err(error) = algorithm.check(rate, per.length, burst.map(|(burst, _)| burst)) {
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
