//! `limits = [(10, "1s"), (1000, "1h")]`.

use syn::{Expr, ExprArray, ExprLit, ExprTuple, Ident, Lit, LitStr};

use super::slot::Arg;
use super::value::{Number, Value, expected, ungrouped};

/// One pair of the list.
pub(crate) struct Limit {
    pub(crate) rate: Arg<Number>,
    pub(crate) per: LitStr,
    /// The whole pair.
    pub(crate) source: Expr,
}

pub(crate) type Limits = Vec<Limit>;

impl Value for Limits {
    fn read(name: &Ident, value: Expr) -> syn::Result<Self> {
        let Expr::Array(ExprArray { elems, .. }) = value else {
            return Err(expected(name, "a list of `(rate, per)` pairs", &value));
        };
        let limits = elems.into_iter().map(|element| limit(ungrouped(element)));
        let (limits, errors): (Vec<_>, Vec<_>) = limits.partition(Result::is_ok);
        let errors = errors.into_iter().filter_map(Result::err);
        match errors.reduce(|mut all, error| {
            all.combine(error);
            all
        }) {
            Some(errors) => Err(errors),
            None => Ok(limits.into_iter().flatten().collect()),
        }
    }
}

fn limit(source: Expr) -> syn::Result<Limit> {
    let parts = match &source {
        Expr::Tuple(ExprTuple { elems, .. }) if elems.len() == 2 => elems,
        other => {
            let message = "expected a `(rate, per)` pair; write `(10, \"1s\")`";
            return Err(syn::Error::new_spanned(other, message));
        }
    };
    if let (
        Expr::Lit(ExprLit { lit: Lit::Str(per), .. }),
        Expr::Lit(ExprLit { lit: Lit::Int(rate), .. }),
    ) = (&parts[0], &parts[1])
    {
        let (rate, per) = (rate.to_string(), per.token());
        let message = format!("expected the rate before the window; write `({rate}, {per})`");
        return Err(syn::Error::new_spanned(source, message));
    }
    let named = |name: &str, part: &Expr| Ident::new(name, syn::spanned::Spanned::span(part));
    let (amount, window) = (ungrouped(parts[0].clone()), ungrouped(parts[1].clone()));
    let rate_name = named("rate", &amount);
    let value = Number::read(&rate_name, amount)?;
    let per = LitStr::read(&named("per", &window), window)?;
    Ok(Limit { rate: Arg { name: rate_name, value }, per, source })
}
