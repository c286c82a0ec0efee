//! Generates an annotated function with its guard.

mod admission;
mod annotation;
mod settlement;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt};
use syn::spanned::Spanned;
use syn::{Attribute, Meta};

use self::admission::admission;
use self::annotation::settings;
use self::settlement::{settled, settles};
use crate::args::{Args, quota_in};
use crate::fragments::parenthesize;
use crate::function::{Body, Code, Function, Variable};
use crate::hygiene::{generated, reported_at};
use crate::limits_file::Lookup;
use crate::problems::Problems;
use crate::runtime::Runtime;
use crate::site;
use crate::validate::{Guard, bound_names_differ, keys_differ, needs_an_async_body, validate};

/// Expands an attribute with these arguments on an item.
pub(crate) fn expand(args: TokenStream, item: &TokenStream, lookup: &Lookup) -> TokenStream {
    let mut problems = Problems::default();
    let mut all = vec![Args::parse(parenthesize(args), &mut problems)];
    let mut function: Function = match syn::parse2(parenthesize(item.clone())) {
        Ok(function) => function,
        Err(error) => {
            problems.at(error.span(), no_function(item));
            let (errors, _) = problems.into_tokens();
            return generated!(#errors #item);
        }
    };
    let below = function.take_limits(&Runtime::new(all[0].krate.value()));
    all.extend(below.iter().map(|attribute| arguments(attribute, &mut problems)));
    needs_an_async_body(&function, &mut problems);
    keys_differ(&all, &mut problems);
    bound_names_differ(&all, &mut problems);
    let guards: Vec<Guard<'_>> =
        all.iter().filter_map(|args| validate(args, &function, lookup, &mut problems)).collect();
    let krate = all.iter().find_map(|args| args.krate.value());
    let runtime = Runtime::find(krate, all[0].place(), &mut problems);
    if !problems.is_empty() {
        return unguarded(&runtime, &all, &function, problems);
    }
    with_body(&function, |body| guarded(&runtime, &guards, &function, lookup, &body))
}

/// Returns the message about an item that cannot be parsed. rustc has reported the syntax of a function already.
fn no_function(item: &TokenStream) -> &'static str {
    let is_sign = |token: &TokenTree| matches!(token, TokenTree::Punct(sign) if ":=".contains(sign.as_char()));
    let mut beginning = item.clone().into_iter().take_while(|token| !is_sign(token));
    match beginning.any(|token| matches!(token, TokenTree::Ident(word) if word == "fn")) {
        true => "`#[rate_limit]` cannot parse this function; correct its syntax",
        false => "`#[rate_limit]` can only be applied to a function; move it to an `async fn`",
    }
}

/// Emits the function without a guard, so that its callers compile. Its body sees the variables that the guard would
/// bind, and counts as using those that the guard would use.
fn unguarded(
    runtime: &Runtime,
    all: &[Args],
    function: &Function,
    problems: Problems,
) -> TokenStream {
    let (errors, checks) = problems.into_tokens();
    let parameters = function.variables().into_iter();
    let parameters =
        parameters.map(|Variable { attrs, name, .. }| generated!(#(#attrs)* let _ = &#name;));
    let names = function.names();
    let permits = all.iter().filter_map(|args| {
        let name = args.bind.value().filter(|name| !names.contains(name))?;
        let (ty, option) = (runtime.public("Permit"), generated!(::core::option::Option));
        let ty = if args.skip_if.is_absent() { ty } else { generated!(#option<#ty>) };
        Some(generated! {
            let #name: #ty = #option::None.unwrap();
            let _ = &#name;
        })
    });
    let variables = generated!(#(#parameters)* #(#permits)*);
    let function = with_body(function, |body| generated!(#checks #variables #body));
    generated!(#errors #function)
}

/// Replaces the body: that of the `async move` block if there is one, otherwise that of the function.
fn with_body(function: &Function, change: impl FnOnce(TokenStream) -> TokenStream) -> TokenStream {
    let Function { attrs, vis, sig, body } = function;
    let mut tokens = TokenStream::new();
    tokens.append_all(attrs);
    vis.to_tokens(&mut tokens);
    sig.to_tokens(&mut tokens);
    match body {
        None => syn::Token![;](Span::mixed_site()).to_tokens(&mut tokens),
        Some(Body { braces, code }) => braces.surround(&mut tokens, |tokens| {
            tokens.extend(match code {
                Code::Async(body) | Code::Sync(body) => change(body.clone()),
                Code::Boxed(boxed) => {
                    boxed.with_guarded(|body| braced(change(body), reported_at(braces.span.join())))
                }
            });
        }),
    }
    tokens
}

/// Parses an attribute below the one that is expanded.
fn arguments(attribute: &Attribute, problems: &mut Problems) -> Args {
    let mut args = match &attribute.meta {
        Meta::List(list) => Args::parse(list.tokens.clone(), problems),
        // The key is missing.
        Meta::Path(_) => Args::default(),
        // On the attribute that is expanded, rustc itself reports this form.
        Meta::NameValue(value) => {
            let limit = quota_in(&value.value);
            let limit = limit.map(|(rate, per)| format!(", rate = {rate}, per = \"{per}\""));
            let limit = limit.unwrap_or_default();
            problems.on(
                value,
                format!(
                    "expected arguments in parentheses; write `#[rate_limit(key = \"orders\"{limit})]`"
                ),
            );
            let mut args = Args::default();
            args.give_up_required();
            args
        }
    };
    args.below = Some(attribute.path().span());
    args
}

// Input:
//     #[rate_limit(key = "users:{user_id}", rate = 2, per = "1s", refund_on = "err")]
//     #[rate_limit(key = "orders", rate = 100, per = "1s", wait = "none", bind = order)]
//     async fn place_order(user_id: u64) -> Result<Receipt, ShopError> { body }
//
// Output, in the function's braces (`__rt::` left out):
//     use ::ratelimit_runtime::__private as __rt;
//     static __LIMIT_0: CallSite = CallSite::new(Annotation { .. });
//     submit! { &__LIMIT_0.annotation }
//     static __LIMIT_1: CallSite = CallSite::new(Annotation { .. });
//     submit! { &__LIMIT_1.annotation }
//     const _: Option<&str> = option_env!("RATELIMIT_LIMITS");
//     let __request_0 = __LIMIT_0.request(1, &[key_part(&user_id)]);
//     let __request_1 = __LIMIT_1.request(1, &[]);
//     let [__permit_0, order] = match acquire([__request_0, __request_1]).await {
//         Ok(__permits) => __permits,
//         Err((_, __rejection)) => return reject(__rejection),
//     };
//     let __result: Result<Receipt, ShopError> = async move { body }.await;
//     let __used_0 = refund_on(&__permit_0, &__result);
//     settle_later(__permit_0, __used_0);
//     __result
//
// A single attribute that keeps no permit takes it as follows, in a block with its items; the body stays as it is.
//     let __request_0 = __LIMIT_0.acquire(1, &[key_part(&user_id)]);
//     if let Some(__rejection) = __request_0.await {
//         return reject(__rejection);
//     }
fn guarded(
    runtime: &Runtime,
    guards: &[Guard<'_>],
    function: &Function,
    lookup: &Lookup,
    body: &TokenStream,
) -> TokenStream {
    let import = runtime.import();
    let function_name = function.name();
    let sites = guards.iter().enumerate().map(|(n, guard)| {
        let (limit, settings) = (numbered("__LIMIT", n), settings(runtime, guard));
        site::site(runtime, &limit, &guard.key, Some(&function_name), &settings)
    });
    let dependencies = site::dependencies(runtime, lookup);
    let items = generated!(#import #(#sites)* #dependencies);
    let admission = admission(runtime, guards, function, &items);
    let body = if settles(guards) {
        settled(runtime, guards, function, body)
    } else {
        block(body, function)
    };
    generated!(#admission #body)
}

/// Returns a name such as `__permit_0`, for the first attribute.
fn numbered(name: &str, n: usize) -> Ident {
    Ident::new(&format!("{name}_{n}"), Span::mixed_site())
}

/// Generates the user's block. Its braces are the user's, because their edition decides when the temporaries of the last
/// expression are dropped. The empty statement keeps rustc from reporting them as unnecessary.
fn block(body: &TokenStream, function: &Function) -> TokenStream {
    braced(generated!(; #body), function.body_span())
}

fn braced(code: TokenStream, span: Span) -> TokenStream {
    let mut block = Group::new(Delimiter::Brace, code);
    block.set_span(span);
    block.into_token_stream()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_written_the_function_stays() {
        let item: TokenStream =
            "async fn f(r#type: u8, (a, _): (u8, u8)) { g(a) }".parse().unwrap();
        for args in [
            "",
            ",",
            ",,",
            "=",
            "= =",
            "key",
            "key =",
            "key = =",
            "key = \"\"",
            "key = \"{\" }",
            "key = \"{type}:{a.await.0}\", rate = 1, per = \"1s\"",
            "key = \"{_x}\"",
            "key = \"{typ}\"",
            "key = b\"k\", rate = --1, per = '1'",
            "key = \"a\", rate = -9223372036854775808, per = \"1s\", permits = 99999999999999999999999",
            "rate == 1",
            "crate = <u8 as T>::X, fallback = <T>::f",
            "permits = , skip_if = ,",
            "permits = fn, skip_if = }",
            "\"key\" \"key\"",
            "1, 2, 3",
            "true = 1",
            "key true = false = \"k\"",
            "r#crate = x, r#key = \"k\"",
        ] {
            let Ok(args) = args.parse() else {
                continue;
            };
            let expanded = expand(args, &item, &Lookup::Nothing);
            assert!(expanded.to_string().contains("async fn f"), "{expanded}");
            syn::parse2::<syn::File>(expanded).expect("it is code");
        }
    }
}
