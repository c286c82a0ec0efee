//! Spans of generated code.

use proc_macro2::Span;

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
