//! Generates the code that keeps or refunds permits, depending on the result of the body.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};

use super::{block, numbered};
use crate::function::{Function, Variable, ends};
use crate::hygiene::{generated, reported_at};
use crate::runtime::Runtime;
use crate::validate::{Guard, holds};

/// Returns whether any permits depend on the result of the body.
pub(super) fn settles(guards: &[Guard<'_>]) -> bool {
    guards.iter().any(Guard::settles)
}

/// Generates the body as a value that is read before it is returned.
pub(super) fn settled(
    runtime: &Runtime,
    guards: &[Guard<'_>],
    function: &Function,
    body: &TokenStream,
) -> TokenStream {
    let output = match function.output() {
        Some(output) => output.to_token_stream(),
        None => generated!(()),
    };
    let (mutable, moved) = moves(guards, function, body);
    let body = block(body, function);
    let settlements = guards.iter().enumerate().filter(|(_, guard)| guard.settles());
    let settlements = settlements.map(|(n, guard)| settlement(runtime, guard, n, function));
    generated! {
        #mutable
        let __result: #output = async move {
            // Gives `?` and `return` in the body their type.
            if let ::core::option::Option::Some(__result) = ::core::option::Option::None::<#output> {
                return __result;
            }
            #moved
            #body
        }
        .await;
        #(#settlements)*
        return __result;
    }
}

/// Generates the statements that move all variables of the function into its body, so that they are dropped in reverse
/// order of declaration: what an `async` block captures is dropped in the order of its use. The statements in front of
/// the block use the parameters that are declared as mutable, for which rustc would report the `mut`. A parameter that
/// the attribute uses may be unused in the body. One that is expected to be unused is not moved: that would use it.
fn moves(
    guards: &[Guard<'_>],
    function: &Function,
    body: &TokenStream,
) -> (TokenStream, TokenStream) {
    let mut parameters = function.variables();
    parameters.retain(|variable| !variable.expects || holds(body.clone(), &variable.name));
    let mutable = parameters.iter().filter(|variable| variable.mutability.is_some());
    let mutable =
        mutable.map(|Variable { attrs, name, .. }| generated!(#(#attrs)* #[allow(clippy::used_underscore_binding)] let _ = &mut #name;));
    let parameters = parameters.iter().map(|Variable { attrs, mutability, name, .. }| {
        let is_used = guards.iter().any(|guard| guard.mentions(name));
        let (lints, used) = match name.to_string().starts_with('_') {
            true => (
                generated!(, clippy::no_effect_underscore_binding, clippy::used_underscore_binding),
                None,
            ),
            // Not `allow`, because a crate can forbid the lint.
            false => (TokenStream::new(), is_used.then(|| generated!(#(#attrs)* let _ = &#name;))),
        };
        generated! {
            #[allow(clippy::shadow_same #lints)]
            #(#attrs)*
            let #mutability #name = #name;
            #used
        }
    });
    let permits = guards.iter().filter_map(|guard| guard.bind);
    let permits =
        permits.map(|permit| generated!(#[allow(clippy::shadow_same)] let #permit = #permit;));
    (generated!(#(#mutable)*), generated!(#(#parameters)* #(#permits)*))
}

/// Generates the statements that settle the permits of one attribute; the first argument that yields `Some` decides.
fn settlement(runtime: &Runtime, guard: &Guard<'_>, n: usize, function: &Function) -> TokenStream {
    let (private, permit, used) =
        (runtime.private(), numbered("__permit", n), numbered("__used", n));
    let refund_on = guard.said.refund_on.map(|_| {
        let (from, to) = function.return_type_span();
        let arguments = quote_spanned!(reported_at(from)=> &#permit, &__result);
        runtime.call("refund_on", (from, to), &arguments)
    });
    let of_a_function = |(name, judge): (&str, Option<&syn::Expr>)| {
        let judge = judge?;
        let (from, to) = ends(judge);
        let code = function.in_its_body(judge.to_token_stream());
        let arguments = quote_spanned!(reported_at(from)=> &__result, #code);
        Some(runtime.call(name, (from, to), &arguments))
    };
    let functions = [("refund_if", guard.refund_if), ("actual", guard.actual)];
    let mut answers = refund_on.into_iter().chain(functions.into_iter().filter_map(of_a_function));
    let first = answers.next();
    generated! {
        let #used = #first #(.or_else(|| #answers))*;
        #private::settle_later(#permit, #used);
    }
}
