//! From the code after `=` to a value, or to a message that shows a good one.

use syn::{Expr, ExprLit, ExprUnary, Ident, Lit, LitStr, Path, UnOp};

/// Every argument with a value to show in messages.
const ARGUMENTS: [(&str, &str); 16] = [
    ("key", "\"orders:{user_id}\""),
    ("rate", "100"),
    ("per", "\"1s\""),
    ("time_zone", "\"Europe/Vienna\""),
    ("limits", "[(10, \"1s\"), (1000, \"1h\")]"),
    ("mode", "\"per_client\""),
    ("algorithm", "\"token_bucket\""),
    ("burst", "200"),
    ("warm_up", "\"10s\""),
    ("permits", "1"),
    ("wait", "\"2s\""),
    ("on_store_error", "\"reject\""),
    ("refund_on", "\"err\""),
    ("fallback", "path::to::function"),
    ("skip_if", "user.is_admin"),
    ("crate", "::path::to::runtime"),
];

/// A value that is a number, or some code that yields one.
pub(crate) enum Number {
    /// Saturated, since anything that large is out of range in any case.
    Literal {
        value: i64,
        source: Expr,
    },
    Code(Expr),
}

pub(super) fn names() -> [&'static str; ARGUMENTS.len()] {
    ARGUMENTS.map(|(name, _)| name)
}

pub(super) fn text(name: &Ident, value: Expr) -> syn::Result<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text),
        other => Err(expected(name, "a string literal", &other)),
    }
}

pub(super) fn rate(name: &Ident, value: Expr) -> syn::Result<Number> {
    match whole(&value) {
        Some(number) => Ok(Number::Literal { value: number, source: value }),
        None if matches!(value, Expr::Path(_)) => Ok(Number::Code(value)),
        None => Err(expected(name, "a whole number or the path of a constant", &value)),
    }
}

pub(super) fn permits(name: &Ident, value: Expr) -> syn::Result<Number> {
    match whole(&value) {
        Some(number) => Ok(Number::Literal { value: number, source: value }),
        None if matches!(value, Expr::Lit(_)) => {
            Err(expected(name, "a whole number or an expression over the parameters", &value))
        }
        None => Ok(Number::Code(value)),
    }
}

pub(super) fn function(name: &Ident, value: Expr) -> syn::Result<Path> {
    path(value).map_err(|other| expected(name, "the path of a function", &other))
}

pub(super) fn krate(name: &Ident, value: Expr) -> syn::Result<Path> {
    path(value).map_err(|other| expected(name, "the path of the runtime crate", &other))
}

fn path(value: Expr) -> Result<Path, Box<Expr>> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        other => Err(Box::new(other)),
    }
}

/// The value of an integer literal, with or without a sign.
fn whole(value: &Expr) -> Option<i64> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
            Some(number.base10_parse().unwrap_or(i64::MAX))
        }
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => whole(expr).map(|number| -number),
        _ => None,
    }
}

/// A value that came through a `macro_rules!` fragment sits in an invisible group.
pub(super) fn ungrouped(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => ungrouped(*group.expr),
        other => other,
    }
}

pub(super) fn expected(name: &Ident, what: &str, found: &Expr) -> syn::Error {
    syn::Error::new_spanned(
        found,
        format!("`{name}` takes {what}; write `{name} = {}`", example(name)),
    )
}

pub(super) fn example(name: &Ident) -> &'static str {
    let known = ARGUMENTS.iter().find(|(known, _)| name == known);
    known.map_or("..", |(_, example)| example)
}
