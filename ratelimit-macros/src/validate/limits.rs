//! Several limits on one key.

use std::time::Duration;

use ratelimit_spec::{Limit, Per, check_count};
use syn::Expr;

use super::numbers::number;
use super::read;
use crate::args::{Arg, Args, Number};
use crate::problems::Problems;

/// The argument `limits`.
pub(super) struct Limits<'a> {
    /// The limits for code generation, or `None` if one has a mistake.
    pub(super) code: Option<Vec<(Expr, Duration)>>,
    /// The limits whose numbers are literals; the rest are checked at startup.
    pub(super) known: Vec<Limit>,
    /// The source of each known limit.
    pub(super) pairs: Vec<&'a Expr>,
}

pub(super) fn limits<'a>(args: &'a Args, problems: &mut Problems) -> Option<Limits<'a>> {
    let given = args.limits.given()?;
    if let Err(error) = check_count(given.value.len()) {
        problems.at(given.name.span(), error);
        return None;
    }
    let read: Vec<_> = given
        .value
        .iter()
        .map(|limit| (number(&limit.rate, problems), read(&limit.per, Per::parse_length, problems)))
        .collect();
    let known = given.value.iter().zip(&read).filter_map(|(written, (rate, per))| {
        let limit = Limit::new(literal(rate.as_ref().and(Some(&written.rate))?)?, (*per)?);
        Some((limit, &written.source))
    });
    let (known, pairs) = known.unzip();
    let code = read.into_iter().map(|(rate, per)| rate.zip(per)).collect();
    Some(Limits { code, known, pairs })
}

fn literal(rate: &Arg<Number>) -> Option<u32> {
    match rate.value {
        Number::Literal { value, .. } => u32::try_from(value).ok(),
        Number::Code(_) => None,
    }
}
