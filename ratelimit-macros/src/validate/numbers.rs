//! Rates, windows and costs.

use ratelimit_spec::{Algorithm, MAX_RATE};
use syn::Expr;

use super::Declared;
use crate::args::{Arg, Args, Number, Slot};
use crate::problems::Problems;

/// What a call costs.
#[derive(Clone, Copy)]
pub(crate) enum Permits<'a> {
    Fixed(u32),
    Computed(&'a Expr),
}

/// A `rate` or a `burst`.
pub(super) fn number(number: &Arg<Number>, problems: &mut Problems) -> Option<Expr> {
    let (value, source) = match &number.value {
        Number::Code(path) => return Some(path.clone()),
        Number::Literal { value, source } => (*value, source),
    };
    let wrong = match value {
        ..0 => "negative",
        0 => "0, which rejects every call",
        value if value > i64::from(MAX_RATE) => "too large",
        _ => return Some(source.clone()),
    };
    let name = &number.name;
    problems.on(source, format!("`{name}` is {wrong}; write a number from 1 to {MAX_RATE}"));
    None
}

pub(super) fn permits<'a>(slot: &'a Slot<Number>, problems: &mut Problems) -> Option<Permits<'a>> {
    let (value, source) = match slot {
        Slot::Absent => return Some(Permits::Fixed(1)),
        Slot::Broken | Slot::Misnamed => return None,
        Slot::Given(Arg { value: Number::Code(expr), .. }) => return Some(Permits::Computed(expr)),
        Slot::Given(Arg { value: Number::Literal { value, source }, .. }) => (*value, source),
    };
    let wrong = match u32::try_from(value) {
        Ok(0) => "0",
        Ok(permits) if permits <= MAX_RATE => return Some(Permits::Fixed(permits)),
        _ if value < 0 => "negative",
        _ => "too large",
    };
    problems.on(source, format!("`permits` is {wrong}; write a number from 1 to {MAX_RATE}"));
    None
}

/// A call that costs more than the capacity would wait forever.
pub(super) fn permits_fit(
    args: &Args,
    permits: Option<Permits<'_>>,
    algorithm: Option<Algorithm>,
    declared: &Declared<'_>,
    problems: &mut Problems,
) {
    let (Some(Arg { value: Number::Literal { source, .. }, .. }), Some(Permits::Fixed(permits))) =
        (args.permits.given(), permits)
    else {
        return;
    };
    let could_never_pass = |limit: String, what: &str| {
        format!(
            "`permits` is {permits}, but {limit}, so no call can succeed; lower `permits`, or raise the {what}"
        )
    };
    let Some(Capacity { what, in_file, given }) = capacity(args, algorithm, declared) else {
        return;
    };
    if let Some((most, place)) = in_file {
        if most > 0 && permits > most {
            let limit = format!("the {what} is {most} in `{place}`");
            problems.on(source, could_never_pass(limit, what));
        }
    } else if let Some(Arg { value: Number::Literal { value: most, source: there }, name }) =
        given.given()
        && *most > 0
        && i64::from(permits) > *most
    {
        problems.on(source, could_never_pass(format!("`{name} = {most}`"), what));
        problems.on(there, format!("`{name}` is set here"));
    }
}

/// The most that one call can take.
struct Capacity<'a> {
    what: &'static str,
    in_file: Option<(u32, String)>,
    given: &'a Slot<Number>,
}

/// Returns `None` if it depends on the file's defaults.
fn capacity<'a>(
    args: &'a Args,
    algorithm: Option<Algorithm>,
    declared: &Declared<'_>,
) -> Option<Capacity<'a>> {
    let burst = declared.overriding(|settings| settings.burst);
    match algorithm? {
        Algorithm::TokenBucket if burst.is_some() || !args.burst.is_absent() => {
            Some(Capacity { what: "burst", in_file: burst, given: &args.burst })
        }
        Algorithm::TokenBucket
            if declared.default_settings().is_some_and(|settings| settings.burst.is_some()) =>
        {
            None
        }
        _ => {
            let in_file = declared.overriding(|settings| settings.rate);
            Some(Capacity { what: "rate", in_file, given: &args.rate })
        }
    }
}
