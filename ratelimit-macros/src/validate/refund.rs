//! What giving permits back asks of a function.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use crate::args::Args;
use crate::function::Function;
use crate::problems::Problems;

/// The result is looked at between the body and the caller, so its type has to have a name.
pub(super) fn result_has_a_name(args: &Args, function: &Function, problems: &mut Problems) {
    let Some(refund_on) = args.refund_on.given() else { return };
    let Some(output) = function.output() else { return };
    if holds_impl(output.to_token_stream()) {
        problems.on(
            output,
            "`refund_on` needs to know what the function returns, and `impl Trait` has no name; write the type, or \
             `Box<dyn Trait>`",
        );
        problems.at(refund_on.name.span(), "`refund_on` is set here");
    }
}

fn holds_impl(ty: TokenStream) -> bool {
    ty.into_iter().any(|token| match token {
        TokenTree::Ident(name) => name == "impl",
        TokenTree::Group(group) => holds_impl(group.stream()),
        _ => false,
    })
}
