//! Rates, windows and costs.

use std::time::Duration;

use ratelimit_spec::{MAX_RATE, parse_duration};
use syn::{Expr, LitStr};

use super::Declared;
use crate::args::{Arg, Args, Number, Slot};
use crate::problems::Problems;

/// What a call costs.
#[derive(Clone, Copy)]
pub(crate) enum Permits<'a> {
    Fixed(u32),
    Computed(&'a Expr),
}

pub(super) fn rate(rate: &Arg<Number>, problems: &mut Problems) -> Option<Expr> {
    let (value, source) = match &rate.value {
        Number::Code(path) => return Some(path.clone()),
        Number::Literal { value, source } => (*value, source),
    };
    let wrong = match value {
        ..0 => "negative",
        0 => "0, which admits nobody",
        value if value > i64::from(MAX_RATE) => "more than a limiter can count",
        _ => return Some(source.clone()),
    };
    problems.on(source, format!("`rate` is {wrong}; write a number from 1 to {MAX_RATE}"));
    None
}

pub(super) fn duration(per: &LitStr, problems: &mut Problems) -> Option<Duration> {
    match parse_duration(&per.value()) {
        Ok(duration) => Some(duration),
        Err(error) => {
            problems.at(per.span(), error);
            None
        }
    }
}

pub(super) fn permits<'a>(slot: &'a Slot<Number>, problems: &mut Problems) -> Option<Permits<'a>> {
    let (value, source) = match slot {
        Slot::Absent => return Some(Permits::Fixed(1)),
        Slot::Broken => return None,
        Slot::Given(Arg { value: Number::Code(expr), .. }) => return Some(Permits::Computed(expr)),
        Slot::Given(Arg { value: Number::Literal { value, source }, .. }) => (*value, source),
    };
    let wrong = match u32::try_from(value) {
        Ok(0) => "0, which takes nothing",
        Ok(permits) if permits <= MAX_RATE => return Some(Permits::Fixed(permits)),
        _ if value < 0 => "negative",
        _ => "more than a limiter can count",
    };
    problems.on(source, format!("`permits` is {wrong}; write a number from 1 to {MAX_RATE}"));
    None
}

/// A call that costs more than the limiter ever has would wait for good.
pub(super) fn permits_fit(
    args: &Args,
    permits: Option<Permits<'_>>,
    declared: &Declared<'_>,
    problems: &mut Problems,
) {
    let (Some(Arg { value: Number::Literal { source, .. }, .. }), Some(Permits::Fixed(permits))) =
        (args.permits.given(), permits)
    else {
        return;
    };
    let could_never_pass = |limit: String| {
        format!(
            "`permits` is {permits}, more than {limit}, so no call could ever pass; lower `permits` or raise the rate"
        )
    };
    if let Some((rate, place)) = declared.overriding_rate() {
        if rate > 0 && permits > rate {
            problems.on(source, could_never_pass(format!("the rate of {rate} in `{place}`")));
        }
    } else if let Some(Arg { value: Number::Literal { value: rate, source: there }, name }) =
        args.rate.given()
        && *rate > 0
        && i64::from(permits) > *rate
    {
        problems.on(source, could_never_pass(format!("`{name} = {rate}`")));
        problems.on(there, "`rate` is set here");
    }
}
