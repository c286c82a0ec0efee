//! A function with several limits, or with one that may get its permits back.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Meta};

use super::{annotation, braced, permits, rejected, skip};
use crate::args::Args;
use crate::function::{Function, ends};
use crate::limits_file::Lookup;
use crate::problems::Problems;
use crate::site::{self, Runtime, generated, reported_at};
use crate::validate::Guard;

/// What is written in an attribute below the one that is expanded.
pub(super) fn arguments(attribute: &Attribute, problems: &mut Problems) -> Args {
    let tokens = match &attribute.meta {
        Meta::List(list) => list.tokens.clone(),
        // Without any arguments, the key is missing.
        Meta::Path(_) => TokenStream::new(),
        // rustc judges this form of the first one.
        Meta::NameValue(value) => {
            problems.on(
                value,
                "expected arguments in parentheses; write `#[rate_limit(key = \"orders\")]`",
            );
            TokenStream::new()
        }
    };
    let mut args = Args::parse(tokens, problems);
    args.below = Some(attribute.path().span());
    if matches!(attribute.meta, Meta::NameValue(_)) {
        args.key.give_up();
        args.rate.give_up();
        args.per.give_up();
    }
    args
}

// Input:
//     #[rate_limit(key = "users:{user_id}", rate = 2, per = "1s", refund_on = "err")]
//     #[rate_limit(key = "orders", rate = 100, per = "1s", wait = "none")]
//     async fn place_order(user_id: u64) -> Result<Receipt, ShopError> { body }
//
// Output, in the function's braces (paths shortened):
//     static __LIMIT_0: CallSite = CallSite::new(Annotation::new(..)..refund_on(RefundOn::Err));
//     submit! { &__LIMIT_0 }
//     static __LIMIT_1: CallSite = CallSite::new(Annotation::new(..)..fallible());
//     submit! { &__LIMIT_1 }
//     const _: Option<&str> = option_env!("RATELIMIT_LIMITS");
//     let __asked_0 = __LIMIT_0.asks(__LIMIT_0.key(&[key_part(&user_id)]), 1u32);
//     let __asked_1 = __LIMIT_1.asks(__LIMIT_1.key(&[]), 1u32);
//     let __taken = match acquire_all([__asked_0, __asked_1]).await {
//         Ok(__taken) => __taken,
//         Err((_, __rejection)) => return reject(__rejection),
//     };
//     let __result: Result<Receipt, ShopError> = async move {
//         if let Some(__result) = None::<Result<Receipt, ShopError>> { return __result; }
//         { body }
//     }.await;
//     let __failed = is_failure(&__result);
//     __taken.settle(__failed).await;
//     __result
//
// Without `refund_on` what was taken is dropped, and the body stays as it is.
pub(super) fn guarded(
    runtime: &Runtime,
    guards: &[Guard<'_>],
    function: &Function,
    lookup: &Lookup,
    body: &TokenStream,
) -> TokenStream {
    let limits = (0..guards.len()).map(limit);
    let statics = guards.iter().zip(limits).map(|(guard, limit)| {
        let private = runtime.private();
        let annotation = annotation(runtime, guard, function);
        let submission = site::submission(runtime, &limit);
        generated! {
            static #limit: #private::CallSite = #private::CallSite::new(#annotation);
            #submission
        }
    });
    let dependencies = site::dependencies(lookup);
    let requests = guards.iter().enumerate().map(|(n, guard)| request(runtime, guard, n, function));
    let admission = admission(runtime, guards, function);
    let body = if settles(guards) {
        settled(runtime, function, body)
    } else {
        braced(body.clone(), function.body_span())
    };
    generated! {
        #(#statics)*
        #dependencies
        #(#requests)*
        #admission
        #body
    }
}

fn limit(n: usize) -> TokenStream {
    Ident::new(&format!("__LIMIT_{n}"), Span::mixed_site()).into_token_stream()
}

fn asked(n: usize) -> Ident {
    Ident::new(&format!("__asked_{n}"), Span::mixed_site())
}

/// Whether the body's result decides what becomes of the permits.
fn settles(guards: &[Guard<'_>]) -> bool {
    guards.iter().any(|guard| guard.refund_on.is_some())
}

/// What one of the limits is asked for.
fn request(runtime: &Runtime, guard: &Guard<'_>, n: usize, function: &Function) -> TokenStream {
    let (private, limit, asked) = (runtime.private(), limit(n), asked(n));
    let (computation, permits) = permits(runtime, guard, function);
    let key = site::key(runtime, &limit, &guard.parts);
    let mut request = generated!(#limit.asks(#key, #permits));
    if computation.is_some() {
        request = generated!({ #computation #request });
    }
    match skip(guard, function) {
        Some(skip) => generated! {
            #skip
            let #asked = if __skip { #private::skipped() } else { #request };
        },
        None => generated!(let #asked = #request;),
    }
}

/// The statement that ends with all permits, or leaves the function.
fn admission(runtime: &Runtime, guards: &[Guard<'_>], function: &Function) -> TokenStream {
    let private = runtime.private();
    let asked = (0..guards.len()).map(asked);
    let asked = generated!([#(#asked),*]);
    let rejectable: Vec<_> =
        guards.iter().enumerate().filter(|(_, guard)| guard.can_reject()).collect();
    let Some((_, others)) = rejectable.split_last() else {
        let admission = generated!(#private::admit_all(#asked).await);
        return match settles(guards) {
            true => generated!(let __taken = #admission;),
            false => generated!(let _ = #admission;),
        };
    };
    let ways_out = rejectable.iter().map(|(_, guard)| rejected(runtime, guard, function));
    let (by, way_out) = if others.is_empty() {
        (generated!(_), generated!(#(#ways_out)*))
    } else {
        let positions =
            others.iter().map(|(n, _)| Literal::usize_unsuffixed(*n).into_token_stream());
        let patterns = positions.chain([generated!(_)]);
        (generated!(__by), generated!(match __by { #(#patterns => #ways_out,)* }))
    };
    if !settles(guards) {
        return generated! {
            if let ::core::result::Result::Err((#by, __rejection)) = #private::acquire_all(#asked).await {
                return #way_out;
            }
        };
    }
    generated! {
        let __taken = match #private::acquire_all(#asked).await {
            ::core::result::Result::Ok(__taken) => __taken,
            ::core::result::Result::Err((#by, __rejection)) => return #way_out,
        };
    }
}

/// The body as a value, which is looked at on its way out.
fn settled(runtime: &Runtime, function: &Function, body: &TokenStream) -> TokenStream {
    let (from, to) = function.return_type_span();
    let output = match function.output() {
        Some(output) => output.to_token_stream(),
        None => generated!(()),
    };
    let body = braced(body.clone(), function.body_span());
    let failed =
        runtime.call("is_failure", (from, to), &quote_spanned!(reported_at(from)=> &__result));
    let failed = quote_spanned!(reported_at(ends(&failed).0)=> let __failed = #failed;);
    generated! {
        let __result: #output = async move {
            // So that `?` and `return` in the body know the type.
            if let ::core::option::Option::Some(__result) = ::core::option::Option::None::<#output> {
                return __result;
            }
            #body
        }
        .await;
        #failed
        __taken.settle(__failed).await;
        __result
    }
}
