//! All errors of one annotation, collected so that one build reports them all.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The errors found so far, with their spans.
#[derive(Default)]
pub(crate) struct Problems {
    errors: Option<syn::Error>,
    checks: Vec<Check>,
}

/// An error that rustc explains better.
struct Check {
    /// An item that cannot compile.
    item: TokenStream,
    /// Reported instead if rustc would stop earlier.
    messages: Vec<(Span, String)>,
}

impl Problems {
    /// Adds a mistake whose caret is one token.
    pub(crate) fn at(&mut self, span: Span, message: impl Display) {
        self.add(syn::Error::new(span, message));
    }

    /// Adds a mistake whose caret covers all of `tokens`.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.errors {
            Some(errors) => errors.combine(error),
            None => self.errors = Some(error),
        }
    }

    /// Leaves mistakes to rustc: `item` cannot compile, and rustc's message for it has the better caret. The `messages`
    /// replace it if there are other mistakes, because rustc then stops before it resolves names. It also does if another
    /// annotation of the module has a mistake, which cannot be known here: the item's is reported by a later build.
    pub(crate) fn leave_to_rustc(&mut self, item: TokenStream, messages: Vec<(Span, String)>) {
        self.checks.push(Check { item, messages });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_none() && self.checks.is_empty()
    }

    /// Returns the mistakes as `compile_error!` items, and the items for rustc, which belong in the function's body.
    pub(crate) fn into_tokens(mut self) -> (TokenStream, TokenStream) {
        let checks = std::mem::take(&mut self.checks);
        if self.errors.is_none() {
            return (TokenStream::new(), checks.into_iter().map(|check| check.item).collect());
        }
        for (place, message) in checks.into_iter().flat_map(|check| check.messages) {
            self.at(place, message);
        }
        let errors = self.errors.map(syn::Error::into_compile_error);
        (errors.unwrap_or_default(), TokenStream::new())
    }
}
