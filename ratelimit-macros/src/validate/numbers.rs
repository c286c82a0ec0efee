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
    let (value, source) = match &number.value {
        Number::Code(path) => return Some(path.clone()),
        Number::Literal { value, source } => (*value, source),
    };
    match check_number(&number.name.to_string(), value.into()) {
        Ok(_) => Some(source.clone()),
        Err(error) => {
            problems.on(source, error);
            None
        }
    }
}

/// Returns the value of a number, or 1 for a constant, because 1 conflicts with no other setting but `shards`.
pub(super) fn known(slot: &Slot<Number>) -> Option<u32> {
    match slot.value()? {
        Number::Literal { value, .. } => u32::try_from(*value).ok(),
        Number::Code(_) => Some(1),
    }
}

pub(super) fn permits<'a>(slot: &'a Slot<Number>, problems: &mut Problems) -> Option<Permits<'a>> {
    let (value, source) = match slot {
        Slot::Absent => return Some(Permits::Fixed(1)),
        Slot::Broken | Slot::Misnamed => return None,
        Slot::Given(Arg { value: Number::Code(expr), .. }) => return Some(Permits::Computed(expr)),
        Slot::Given(Arg { value: Number::Literal { value, source }, .. }) => (*value, source),
    };
    match check_number("permits", value.into()) {
        Ok(permits) => Some(Permits::Fixed(permits)),
        Err(error) => {
            problems.on(source, error);
            None
        }
    }
}
