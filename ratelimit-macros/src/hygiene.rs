//! Spans of generated code.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::ToTokens;

/// `quote!` with names that neither capture the user's nor can be captured by them.
macro_rules! generated {
    ($($tokens:tt)*) => {
        quote::quote_spanned!(proc_macro2::Span::mixed_site()=> $($tokens)*)
    };
}
pub(crate) use generated;

/// Returns the span for generated code that rustc should report at a location in the user's source.
pub(crate) fn reported_at(place: Span) -> Span {
    Span::mixed_site().located_at(place)
}

/// Returns the user's code as one operand of generated code. The parentheses count as generated: in the user's place,
/// rustc would report them as unnecessary.
pub(crate) fn parenthesized(code: impl ToTokens) -> TokenStream {
    let code = code.into_token_stream();
    let place = code.clone().into_iter().next().map_or_else(Span::call_site, |first| first.span());
    let mut group = Group::new(Delimiter::Parenthesis, code);
    group.set_span(reported_at(place));
    group.into_token_stream()
}

/// Returns the user's code with outer parentheses or braces that count as generated: as an operand of generated code,
/// rustc would report them as unnecessary.
pub(crate) fn delimited(code: TokenStream) -> TokenStream {
    let mut tokens = code.clone().into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Group(mut group)), None) => {
            group.set_span(reported_at(group.span()));
            group.into_token_stream()
        }
        _ => code,
    }
}
