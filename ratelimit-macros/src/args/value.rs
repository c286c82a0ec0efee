//! Converts the code after `=` to a value, or to an error that shows a valid one.

use std::num::NonZeroU32;

use quote::ToTokens;
use ratelimit_spec::{Algorithm, Mode, OnStoreError, RefundOn, Wait, parse_duration, rate};
use syn::{Expr, ExprLit, ExprPath, ExprUnary, Ident, Lit, LitStr, Path, UnOp};

use super::example;

/// A literal number, or code that evaluates to one.
pub(crate) enum Number {
    /// Saturates; such a number is out of range in any case.
    Literal {
        value: i64,
        source: Expr,
    },
    Code(Expr),
}

/// The value of a setting.
pub(super) trait Value: Sized {
    fn read(name: &Ident, value: Expr) -> syn::Result<Self>;
}

impl Value for LitStr {
    fn read(name: &Ident, value: Expr) -> syn::Result<Self> {
        if let Some(text) = string(&value) {
            return Ok(text.clone());
        }
        let word = word(name, &value).map(|word| format!("\"{word}\""));
        let word = word.as_deref().unwrap_or(example(name));
        let message = format!("expected a string literal for `{name}`; write `{name} = {word}`");
        Err(syn::Error::new_spanned(value, message))
    }
}

/// Returns the word that was meant by a value without quotes.
fn word(name: &Ident, value: &Expr) -> Option<String> {
    let is_wait = name == "wait";
    match value {
        Expr::Path(path) => {
            let word = path.path.get_ident()?.to_string();
            let known = match name.to_string().as_str() {
                "mode" => word.parse::<Mode>().is_ok(),
                "algorithm" => word.parse::<Algorithm>().is_ok(),
                "on_store_error" => word.parse::<OnStoreError>().is_ok(),
                "refund_on" => word.parse::<RefundOn>().is_ok(),
                "wait" => word.parse::<Wait>().is_ok(),
                _ => false,
            };
            known.then_some(word)
        }
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
            if is_wait && number.base10_digits() == "0" {
                return Some("none".to_owned());
            }
            let is_duration = is_wait || name == "per" || name == "warm_up";
            Some(number.to_string()).filter(|text| is_duration && parse_duration(text).is_ok())
        }
        Expr::Lit(ExprLit { lit: Lit::Bool(waits), .. }) if is_wait => {
            Some(if waits.value { "forever" } else { "none" }.to_owned())
        }
        _ => None,
    }
}

impl Value for Number {
    fn read(name: &Ident, value: Expr) -> syn::Result<Self> {
        match whole(&value) {
            Some(number) => Ok(Self::Literal { value: number, source: value }),
            None if matches!(value, Expr::Path(_)) => Ok(Self::Code(value)),
            None => Err(not_a_rate(name, &value)),
        }
    }
}

/// Returns the error for a rate that is no integer. For an integer in quotes or with an exponent, or a quota such as
/// `100/s`, the intended value is clear.
fn not_a_rate(name: &Ident, value: &Expr) -> syn::Error {
    let what = "an integer or the path of a constant";
    let float = match value {
        Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => number.base10_parse::<f64>().ok(),
        _ => None,
    };
    let number = match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value().parse().ok(),
        // `5.0` and `1e3` are displayed as integers.
        _ => float.and_then(|number| number.to_string().parse::<NonZeroU32>().ok()),
    };
    let is_rate = name == "rate";
    let advice = match (quota_in(value), number, float.and_then(rate::whole_rate)) {
        (Some((rate, per)), ..) if is_rate => format!("`rate = {rate}, per = \"{per}\"`"),
        (_, Some(number), _) => format!("`{name} = {number}`"),
        (.., Some((rate, times))) if is_rate => {
            format!("`rate = {rate}` and a `per` that is {times} times as long")
        }
        _ => return expected(name, what, value),
    };
    syn::Error::new_spanned(value, format!("expected {what} for `{name}`; write {advice}"))
}

/// Returns the rate and the window of `"100/s"`, with or without quotes.
pub(crate) fn quota_in(value: &Expr) -> Option<(u32, String)> {
    match value {
        Expr::Binary(_) => rate::quota_in(&value.to_token_stream().to_string()),
        _ => rate::quota_in(&string(value)?.value()),
    }
}

pub(super) fn permits(name: &Ident, value: Expr) -> syn::Result<Number> {
    match whole(&value) {
        Some(number) => Ok(Number::Literal { value: number, source: value }),
        None if matches!(value, Expr::Lit(_)) => {
            let code = quoted(&value).unwrap_or_else(|| example(name).to_owned());
            let message = format!(
                "expected an integer or an expression for `{name}`; write `{name} = {code}`"
            );
            Err(syn::Error::new_spanned(value, message))
        }
        None => expression(name, value).map(Number::Code),
    }
}

/// Returns the code in a string literal.
fn quoted(value: &Expr) -> Option<String> {
    let text = string(value)?;
    text.parse::<Expr>().is_ok().then(|| text.value())
}

fn string(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text),
        _ => None,
    }
}

pub(super) fn function(name: &Ident, value: Expr) -> syn::Result<Expr> {
    match value {
        Expr::Path(_) | Expr::Closure(_) => Ok(value),
        other => Err(expected(name, "the path of a function or a closure", &other)),
    }
}

pub(super) fn identifier(name: &Ident, value: Expr) -> syn::Result<Ident> {
    match value {
        Expr::Path(path) if path.path.get_ident().is_some_and(|name| name != "self") => {
            path.path.require_ident().cloned()
        }
        other => Err(expected(name, "the name of a new variable", &other)),
    }
}

/// Accepts any expression but a closure, which other arguments can be; rustc checks its type.
pub(super) fn expression(name: &Ident, value: Expr) -> syn::Result<Expr> {
    match value {
        Expr::Closure(_) => {
            let message = format!(
                "`{name}` cannot be a closure; write its body, which can use the parameters"
            );
            Err(syn::Error::new_spanned(value, message))
        }
        other => Ok(other),
    }
}

pub(crate) fn krate(name: &Ident, value: Expr) -> syn::Result<Path> {
    match value {
        Expr::Path(ExprPath { qself: None, path, .. })
            if path.segments.iter().all(|segment| segment.arguments.is_none()) =>
        {
            Ok(path)
        }
        other => Err(expected(name, "the path of the runtime crate", &other)),
    }
}

/// Returns the value of an integer literal, with or without a sign.
fn whole(value: &Expr) -> Option<i64> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
            Some(number.base10_parse().unwrap_or(i64::MAX))
        }
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => whole(expr).map(|number| -number),
        _ => None,
    }
}

/// Removes the invisible group around a value that came through a `macro_rules!` fragment.
pub(crate) fn ungrouped(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => ungrouped(*group.expr),
        other => other,
    }
}

pub(super) fn expected(name: &Ident, what: &str, found: &Expr) -> syn::Error {
    syn::Error::new_spanned(
        found,
        format!("expected {what} for `{name}`; write `{name} = {}`", example(name)),
    )
}
