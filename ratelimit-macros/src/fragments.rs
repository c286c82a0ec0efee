//! Fragments of `macro_rules!`, such as `$cost:expr`, in the code that an attribute is applied to.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::Expr;

use crate::hygiene::reported_at;

/// Puts parentheses around expressions that are operands.
///
/// A fragment is an invisible group, which rustc drops from what a procedural macro returns: without parentheses,
/// `$cost * 2` would be `1 + 2 * 2`.
pub(crate) fn parenthesize(tokens: TokenStream) -> TokenStream {
    if !holds_a_fragment(&tokens) {
        return tokens;
    }
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let replaced = tokens.iter().enumerate().map(|(n, token)| match token {
        TokenTree::Group(group) => {
            let is_operand = is_fragment(group) && is_operand(&tokens[..n], tokens.get(n + 1));
            TokenTree::Group(grouped(group, is_operand))
        }
        other => other.clone(),
    });
    replaced.collect()
}

fn grouped(group: &Group, is_operand: bool) -> Group {
    let is_operand = is_operand && binds_loosely(group.stream());
    if !is_operand && !holds_a_fragment(&group.stream()) {
        return group.clone();
    }
    let delimiter = if is_operand { Delimiter::Parenthesis } else { group.delimiter() };
    let mut changed = Group::new(delimiter, parenthesize(group.stream()));
    // rustc does not report generated parentheses as unnecessary.
    changed.set_span(if is_operand { reported_at(group.span()) } else { group.span() });
    changed
}

fn holds_a_fragment(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => is_fragment(&group) || holds_a_fragment(&group.stream()),
        _ => false,
    })
}

fn is_fragment(group: &Group) -> bool {
    group.delimiter() == Delimiter::None
}

/// Returns whether a token that could bind stronger is in front of an expression or behind it.
fn is_operand(before: &[TokenTree], after: Option<&TokenTree>) -> bool {
    let ends = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if matches!(punct.as_char(), ',' | ';'));
    let starts = match before {
        [] => true,
        // The `=` of an argument or of a variable, not that of `==`.
        [.., TokenTree::Ident(_), TokenTree::Punct(equals)] if equals.as_char() == '=' => true,
        [.., last] => ends(last),
    };
    !starts || !after.is_none_or(ends)
}

/// Returns whether code is an expression that another operator can break up. References, literals with a sign and
/// alternatives can be types or patterns too, which parentheses do not change.
fn binds_loosely(code: TokenStream) -> bool {
    matches!(
        syn::parse2(code),
        Ok(Expr::Assign(_)
            | Expr::Binary(_)
            | Expr::Break(_)
            | Expr::Cast(_)
            | Expr::Closure(_)
            | Expr::Range(_)
            | Expr::Reference(_)
            | Expr::Return(_)
            | Expr::Unary(_))
    )
}
