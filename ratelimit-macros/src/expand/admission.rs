//! Generates the code that acquires the permits of a call, or leaves the function.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::Type;

use super::numbered;
use crate::function::{Function, ends};
use crate::hygiene::{delimited, generated, reported_at};
use crate::runtime::Runtime;
use crate::site;
use crate::validate::{Guard, Permits, has_word};

/// Generates the statements that take the permits of all attributes, or leave the function, after the items they use.
pub(super) fn admission(
    runtime: &Runtime,
    guards: &[Guard<'_>],
    function: &Function,
    items: &TokenStream,
) -> TokenStream {
    let way_out = way_out(runtime, guards, function);
    // The usual form has code of its own, which compiles in less time and is smaller.
    let is_simple = matches!(guards, [guard] if guard.bind.is_none() && !guard.settles());
    let requests = guards.iter().enumerate();
    let requests = requests.map(|(n, guard)| request(runtime, guard, n, function, is_simple));
    let requests = generated!(#(#requests)*);
    if !is_simple {
        let admission = bound(runtime, guards, way_out);
        return generated!(#items #requests #admission);
    }
    let private = runtime.private();
    let admission = match way_out {
        None => generated!(let _ = __request_0.await;),
        Some((_, way_out)) => generated! {
            if let #private::Some(__rejection) = __request_0.await {
                return #way_out;
            }
        },
    };
    // In a block, so that the request is no part of the future while the body runs, and the body does not see our items.
    generated! {
        {
            #items
            #requests
            #admission
        }
    }
}

/// Generates the statements that create the request of one attribute.
fn request(
    runtime: &Runtime,
    guard: &Guard<'_>,
    n: usize,
    function: &Function,
    is_simple: bool,
) -> TokenStream {
    let (private, limit, name) =
        (runtime.private(), numbered("__LIMIT", n), numbered("__request", n));
    let (method, ty) = if is_simple {
        (generated!(acquire), generated!(Acquire))
    } else {
        (generated!(request), generated!(Request))
    };
    let permits = permits(runtime, guard, function);
    let parts = site::parts(runtime, &guard.parts);
    let request = generated!(#limit.#method(#permits, #parts));
    let Some(condition) = guard.skip_if else {
        return generated!(let #name = #request;);
    };
    let skip = numbered("__skip", n);
    let condition = delimited(function.in_its_body(condition.to_token_stream()));
    let boolean = quote_spanned!(reported_at(ends(&condition).0)=> ::core::primitive::bool);
    generated! {
        let #skip: #boolean = #condition;
        let #name = if #skip { #private::#ty::skipped() } else { #request };
    }
}

/// Generates the number of permits that a call takes.
fn permits(runtime: &Runtime, guard: &Guard<'_>, function: &Function) -> TokenStream {
    match guard.permits {
        Permits::Fixed(permits) => Literal::u32_unsuffixed(permits).into_token_stream(),
        Permits::Computed(expr) => {
            let code = delimited(function.in_its_body(expr.to_token_stream()));
            runtime.call("permits", ends(expr), &code)
        }
    }
}

/// Generates the statements that bind the permits of all requests, or leave the function.
fn bound(
    runtime: &Runtime,
    guards: &[Guard<'_>],
    way_out: Option<(TokenStream, TokenStream)>,
) -> TokenStream {
    let private = runtime.private();
    let requests = (0..guards.len()).map(|n| numbered("__request", n));
    let requests = generated!([#(#requests),*]);
    let permits = guards.iter().enumerate().map(|(n, guard)| match guard.bind {
        Some(bind) if guard.skip_if.is_none() => bind.to_token_stream(),
        None if !guard.settles() => generated!(_),
        _ => numbered("__permit", n).into_token_stream(),
    });
    let permits = generated!([#(#permits),*]);
    let optional = guards.iter().enumerate().filter_map(|(n, guard)| {
        let (bind, skip, permit) =
            (guard.skip_if.and(guard.bind)?, numbered("__skip", n), numbered("__permit", n));
        Some(generated!(let #bind = (!#skip).then_some(#permit);))
    });
    let admission = match way_out {
        None => generated!(let #permits = #private::admit(#requests).await;),
        Some((by, way_out)) => generated! {
            let #permits = match #private::acquire(#requests).await {
                ::core::result::Result::Ok(__permits) => __permits,
                ::core::result::Result::Err((#by, __rejection)) => return #way_out,
            };
        },
    };
    generated!(#admission #(#optional)*)
}

/// Generates the pattern for the position of the rejecting attribute, as far as it matters, and the function's return
/// value. `None` if no attribute rejects a call.
fn way_out(
    runtime: &Runtime,
    guards: &[Guard<'_>],
    function: &Function,
) -> Option<(TokenStream, TokenStream)> {
    let rejecting = guards.iter().enumerate().filter(|(_, guard)| guard.can_reject());
    let (positions, ways_out): (Vec<_>, Vec<_>) =
        rejecting.map(|(n, guard)| (n, rejected(runtime, guard, function))).unzip();
    let (_, others) = positions.split_last()?;
    if others.is_empty() {
        return Some((generated!(_), generated!(#(#ways_out)*)));
    }
    let patterns = others.iter().map(|n| Literal::usize_unsuffixed(*n).into_token_stream());
    let patterns = patterns.chain([generated!(_)]);
    Some((generated!(__by), generated!(match __by { #(#patterns => #ways_out,)* })))
}

/// Generates the return value of a call without a permit.
fn rejected(runtime: &Runtime, guard: &Guard<'_>, function: &Function) -> TokenStream {
    let Some(fallback) = guard.fallback else {
        let place = function.return_type_span();
        // Without its type, rustc takes that of a mistaken body for that of the block, and reports our `return` too.
        let output = function.output().filter(|output| function.is_boxed() && has_name(output));
        return runtime.call_of("reject", output, place, &generated!(__rejection));
    };
    let private = runtime.private();
    let (from, to) = ends(fallback);
    let code = function.in_its_body(fallback.to_token_stream());
    // A generic fallback returns what the function returns, if that has a name.
    let output = match function.output() {
        Some(output) if has_name(output) => output.to_token_stream(),
        Some(_) => generated!(#private::ReturnTypeIsImplTrait),
        None => generated!(()),
    };
    let (start, end) = (runtime.private_at(from), reported_at(to));
    let answer =
        quote_spanned!(reported_at(from)=> #start::answer::<#output, _>(__rejection, #code));
    let resolved = quote_spanned!(end=> #answer.resolve());
    let [plain, later] = ["__plain", "__later"].map(|name| Ident::new(name, reported_at(from)));
    let value = quote_spanned!(end=> #plain.get());
    // In a block of its own: if the future never ends, rustc would report the `return` of its output as unreachable. The
    // block borrows the future, because one that it owns would have its size twice.
    let output = quote_spanned!(end=> async { #later.await }.await);
    generated! {
        {
            use #private::{GetAnswer as _, ResolveFuture as _, ResolveNever as _, ResolvePlain as _};
            let #later = match #resolved {
                #private::Resolved::Now(#plain) => return #value,
                #private::Resolved::Later(#later) => #later,
            };
            let #later = ::core::pin::pin!(#later);
            #output
        }
    }
}

/// Returns whether a type can be written in the body.
fn has_name(ty: &Type) -> bool {
    !has_word(ty.to_token_stream(), "impl")
}
