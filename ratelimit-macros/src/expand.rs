//! An annotated function with its guard.

mod stacked;

use proc_macro2::{Delimiter, Group, Literal, Span, TokenStream};
use quote::{ToTokens, TokenStreamExt, quote_spanned};
use ratelimit_spec::TimeZone;

use crate::args::Args;
use crate::function::{Body, Code, Function, ends};
use crate::limits_file::Lookup;
use crate::problems::Problems;
use crate::site::{self, Runtime, generated, reported_at};
use crate::validate::{Guard, Numbers, Permits, keys_differ, needs_an_async_body, validate};

/// The whole attribute: what it takes, what it is on, what it becomes.
pub(crate) fn expand(args: TokenStream, item: &TokenStream, lookup: &Lookup) -> TokenStream {
    let mut problems = Problems::default();
    let mut all = vec![Args::parse(args, &mut problems)];
    let mut function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            problems.at(error.span(), "`#[rate_limit]` goes on an `async fn`; move it to one");
            let (errors, _) = problems.into_tokens();
            return generated!(#errors #item);
        }
    };
    let below = function.take_limits();
    all.extend(below.iter().map(|attribute| stacked::arguments(attribute, &mut problems)));
    needs_an_async_body(&function, &mut problems);
    keys_differ(&all, &mut problems);
    let guards: Vec<Guard<'_>> =
        all.iter().filter_map(|args| validate(args, &function, lookup, &mut problems)).collect();
    if !problems.is_empty() {
        return unguarded(&function, problems);
    }
    let runtime = Runtime::new(all.iter().find_map(|args| args.krate.value()));
    with_body(&function, |body| match &guards[..] {
        [guard] if guard.refund_on.is_none() => guarded(&runtime, guard, &function, lookup, &body),
        guards => stacked::guarded(&runtime, guards, &function, lookup, &body),
    })
}

/// The function as it was, so that one mistake is one error and not one more per caller.
fn unguarded(function: &Function, problems: Problems) -> TokenStream {
    let (errors, checks) = problems.into_tokens();
    let function = with_body(function, |body| generated!(#checks #body));
    generated!(#errors #function)
}

/// The function with another body: of the `async move` block when there is one, else of the function.
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
                    boxed.with_guarded(|body| braced(change(body), braces.span.join()))
                }
            });
        }),
    }
    tokens
}

// Input:
//     #[rate_limit(key = "orders:{user_id}", rate = 2, per = "1s", wait = "none")]
//     async fn place_order(user_id: u64) -> Result<Receipt, ShopError> { body }
//
// Output, in the function's braces (paths shortened):
//     static __LIMIT: CallSite = CallSite::new(Annotation::new(..).rate(2).per_ms(1000).wait(Wait::None).fallible());
//     submit! { &__LIMIT }
//     const _: Option<&str> = option_env!("RATELIMIT_LIMITS");
//     let __key = __LIMIT.key(&[key_part(&user_id)]);
//     if let Err(__rejection) = __LIMIT.acquire(__key, 1u32).await {
//         return reject(__rejection);
//     }
//     { body }
fn guarded(
    runtime: &Runtime,
    guard: &Guard<'_>,
    function: &Function,
    lookup: &Lookup,
    body: &TokenStream,
) -> TokenStream {
    let private = runtime.private();
    let annotation = annotation(runtime, guard, function);
    let registration = site::registration(runtime, lookup);
    let admission = admission(runtime, guard, function);
    let admission = match skip(guard, function) {
        Some(skip) => generated! {
            #skip
            if !__skip { #admission }
        },
        None => admission,
    };
    let body = braced(body.clone(), function.body_span());
    generated! {
        static __LIMIT: #private::CallSite = #private::CallSite::new(#annotation);
        #registration
        #admission
        #body
    }
}

fn annotation(runtime: &Runtime, guard: &Guard<'_>, function: &Function) -> TokenStream {
    let start = guard.numbers.rate.as_ref().map_or_else(Span::call_site, |rate| ends(rate).0);
    let annotation = site::annotation(runtime, &guard.key, Some(&function.name()), start);
    let settings = settings(runtime, guard);
    generated!(#annotation #settings)
}

/// Whether the call is left alone.
fn skip(guard: &Guard<'_>, function: &Function) -> Option<TokenStream> {
    let condition = function.in_its_body(guard.skip_if?.to_token_stream());
    let ty = quote_spanned!(reported_at(ends(&condition).0)=> bool);
    Some(generated!(let __skip: #ty = #condition;))
}

/// What was written in the annotation, and nothing else: the limits file may set the rest.
fn settings(runtime: &Runtime, guard: &Guard<'_>) -> TokenStream {
    let Numbers { rate, per, limits, .. } = &guard.numbers;
    let mut settings = TokenStream::new();
    if let Some(rate) = rate {
        settings.extend(quote_spanned!(reported_at(ends(rate).1)=> .rate(#rate)));
    }
    if let Some(per) = per {
        settings.extend(site::per(runtime, *per));
    }
    if let Some(zone) = guard.time_zone.map(TimeZone::name) {
        settings.extend(generated!(.time_zone(#zone)));
    }
    if let Some(limits) = limits {
        let limits = limits.iter().map(|(rate, per)| {
            let per = site::milliseconds(*per);
            generated!((#rate, #per))
        });
        settings.extend(generated!(.limits(&[#(#limits),*])));
    }
    settings.extend(site::declared(runtime, &guard.numbers));
    if let Some(mode) = guard.mode.map(|mode| site::word(runtime, "Mode", mode)) {
        settings.extend(generated!(.mode(#mode)));
    }
    if let Some(algorithm) = guard.algorithm {
        let algorithm = site::word(runtime, "Algorithm", algorithm);
        settings.extend(generated!(.algorithm(#algorithm)));
    }
    if let Some(burst) = &guard.burst {
        settings.extend(quote_spanned!(reported_at(ends(burst).1)=> .burst(#burst)));
    }
    if let Some(warm_up) = guard.warm_up.map(site::milliseconds) {
        settings.extend(generated!(.warm_up_ms(#warm_up)));
    }
    if let Some(wait) = guard.wait.map(|wait| site::wait(runtime, wait)) {
        settings.extend(generated!(.wait(#wait)));
    }
    if let Some(policy) =
        guard.on_store_error.map(|policy| site::word(runtime, "OnStoreError", policy))
    {
        settings.extend(generated!(.on_store_error(#policy)));
    }
    if let Some(outcome) = guard.refund_on.map(|outcome| site::word(runtime, "RefundOn", outcome)) {
        settings.extend(generated!(.refund_on(#outcome)));
    }
    settings.extend(match guard.permits {
        Permits::Fixed(1) => TokenStream::new(),
        Permits::Fixed(permits) => {
            let permits = Literal::u32_unsuffixed(permits);
            generated!(.permits(#permits))
        }
        Permits::Computed(_) => generated!(.computed_permits()),
    });
    if guard.can_reject() {
        settings.extend(generated!(.fallible()));
    }
    settings
}

/// The statements that end with a permit, or leave the function.
fn admission(runtime: &Runtime, guard: &Guard<'_>, function: &Function) -> TokenStream {
    let key = site::key(runtime, &generated!(__LIMIT), &guard.parts);
    let (computation, permits) = permits(runtime, guard, function);
    if !guard.can_reject() {
        return generated! {
            let __key = #key;
            __LIMIT.admit(__key, #permits).await;
        };
    }
    let rejected = rejected(runtime, guard, function);
    generated! {
        #computation
        let __key = #key;
        if let ::core::result::Result::Err(__rejection) = __LIMIT.acquire(__key, #permits).await {
            return #rejected;
        }
    }
}

/// How many permits the call takes, and the statement that computes it.
fn permits(
    runtime: &Runtime,
    guard: &Guard<'_>,
    function: &Function,
) -> (Option<TokenStream>, TokenStream) {
    let expr = match guard.permits {
        Permits::Fixed(permits) => return (None, permits.to_token_stream()),
        Permits::Computed(expr) => expr,
    };
    let code = function.in_its_body(expr.to_token_stream());
    let permits = runtime.call("permits", ends(expr), &code);
    (Some(generated!(let __permits = #permits;)), generated!(__permits))
}

/// What a call without a permit returns.
fn rejected(runtime: &Runtime, guard: &Guard<'_>, function: &Function) -> TokenStream {
    let Some(fallback) = guard.fallback else {
        return runtime.call("reject", function.return_type_span(), &generated!(__rejection));
    };
    let private = runtime.private();
    let (from, to) = ends(fallback);
    let answer = runtime.call("Answer", (from, from), &generated!(#fallback(__rejection)));
    let settled = quote_spanned!(reported_at(to)=> #answer.settle().await);
    generated! {
        {
            use #private::SettlePlain as _;
            #settled
        }
    }
}

/// Braces that count as generated: on braces of the user's, rustc would find the block unnecessary.
fn braced(code: TokenStream, place: Span) -> TokenStream {
    let mut block = Group::new(Delimiter::Brace, code);
    block.set_span(reported_at(place));
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
