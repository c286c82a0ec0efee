//! Rates, windows and costs.

use ratelimit_spec::check_number;
use syn::Expr;

use crate::args::{Arg, Number, Slot};
use crate::problems::Problems;

/// The cost of a call.
#[derive(Clone, Copy)]
pub(crate) enum Permits<'a> {
    Fixed(u32),
    Computed(&'a Expr),
}

/// Checks a `rate` or a `burst`.
pub(super) fn number(number: &Arg<Number>, problems: &mut Problems) -> Option<Expr> {
    match &number.value {
        Number::Code(path) => Some(path.clone()),
        Number::Literal { value, source } => {
            checked(&number.name.to_string(), *value, source, problems).map(|_| source.clone())
        }
    }
}

fn checked(name: &str, value: i64, source: &Expr, problems: &mut Problems) -> Option<u32> {
    check_number(name, value.into()).map_err(|error| problems.on(source, error)).ok()
}

/// Returns the value of a number, or 1 for a constant, because 1 conflicts with no other setting but `shards`.
pub(super) fn known(slot: &Slot<Number>) -> Option<u32> {
    match slot.value()? {
        Number::Literal { value, .. } => u32::try_from(*value).ok(),
        Number::Code(_) => Some(1),
    }
}

pub(super) fn permits<'a>(slot: &'a Slot<Number>, problems: &mut Problems) -> Option<Permits<'a>> {
    match slot {
        Slot::Absent => Some(Permits::Fixed(1)),
        Slot::Broken | Slot::Misnamed => None,
        Slot::Given(Arg { value: Number::Code(expr), .. }) => Some(Permits::Computed(expr)),
        Slot::Given(Arg { value: Number::Literal { value, source }, .. }) => {
            checked("permits", *value, source, problems).map(Permits::Fixed)
        }
    }
}
