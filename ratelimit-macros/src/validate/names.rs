//! Resolves the placeholders of a key.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use ratelimit_spec::Placeholder;
use syn::ext::IdentExt;
use syn::{Index, LitStr, Member};

use crate::function::Function;
use crate::hygiene::{generated, reported_at};
use crate::key::{Key, written};
use crate::problems::Problems;
use crate::suggest::did_you_mean;

/// One placeholder's value, borrowed.
pub(crate) struct Part {
    pub(crate) reference: TokenStream,
    pub(crate) optional: bool,
    /// The span for errors about it.
    pub(crate) place: Span,
}

/// Returns the values in the order of the placeholders.
pub(super) fn parts(key: &Key<'_>, function: &Function, problems: &mut Problems) -> Vec<Part> {
    let names = function.names();
    let mut parts = Vec::new();
    let mut unknown = Vec::new();
    for placeholder in key.placeholders() {
        match names.iter().find(|name| name.unraw() == placeholder.path[0]) {
            Some(name) => parts.push(part(key, placeholder, name, function)),
            None => unknown.push(placeholder),
        }
    }
    if key.is_a_format_string()
        && unknown.iter().all(|placeholder| looks_like_a_variable(&placeholder.path[0]))
    {
        if !unknown.is_empty() {
            let messages = unknown.iter().map(|placeholder| {
                (key.span_of(placeholder), unknown_name(placeholder, function, &names))
            });
            let messages: Vec<_> = messages.collect();
            let check = unknown_name_check(key.literal, &names, &messages[0].1);
            problems.leave_to_rustc(check, messages);
        }
        return parts;
    }
    for placeholder in unknown {
        problems.at(key.span_of(placeholder), unknown_name(placeholder, function, &names));
    }
    parts
}

fn part(key: &Key<'_>, placeholder: &Placeholder, name: &Ident, function: &Function) -> Part {
    let place = key.span_of(placeholder);
    let mut root = match function.receiver() {
        Some(receiver) if name == "self" => receiver,
        _ => name.clone(),
    };
    // The name resolves as in the signature, even if the key comes from a macro.
    root.set_span(root.span().located_at(place));
    Part { reference: reference(placeholder, &root, place), optional: placeholder.optional, place }
}

/// Generates `&order.tenant`, or `&addr.ip()`.
pub(crate) fn reference(placeholder: &Placeholder, root: &Ident, place: Span) -> TokenStream {
    let span = reported_at(place);
    let steps = placeholder.path[1..].iter().map(|step| match step.strip_suffix("()") {
        Some(method) => {
            let method = identifier(method, span);
            quote_spanned!(span=> .#method())
        }
        None => {
            let field = member(step, span);
            quote_spanned!(span=> .#field)
        }
    });
    quote_spanned!(span=> &#root #(#steps)*)
}

fn member(field: &str, span: Span) -> Member {
    if let Ok(index) = field.parse() {
        return Member::Unnamed(Index { index, span });
    }
    Member::Named(identifier(field, span))
}

/// Creates an identifier, raw if the name is a keyword, including `await`.
pub(crate) fn identifier(name: &str, span: Span) -> Ident {
    if name == "self" {
        return Ident::new(name, span);
    }
    let mut name = syn::parse_str(name).unwrap_or_else(|_| Ident::new_raw(name, span));
    name.set_span(span);
    name
}

/// A constant would satisfy `format_args!` without being a parameter.
fn looks_like_a_variable(name: &str) -> bool {
    name != "self"
        && name.starts_with(|first: char| first.is_lowercase())
        && syn::parse_str::<Ident>(name).is_ok()
}

fn unknown_name(placeholder: &Placeholder, function: &Function, names: &[Ident]) -> String {
    let (written, function, root) =
        (written(placeholder), function.name(), placeholder.path[0].as_str());
    if root == "self" {
        return format!(
            "`{{{written}}}` requires a method, but `{function}` has no `self`; write a parameter"
        );
    }
    if names.is_empty() {
        return format!(
            "`{{{written}}}` is not a parameter, because `{function}` has none; remove it from the key"
        );
    }
    let known: Vec<String> = names.iter().map(|name| name.unraw().to_string()).collect();
    let suggestion = did_you_mean(root, known.iter().map(String::as_str));
    format!("`{{{written}}}` is not a parameter of `{function}`; {suggestion}")
}

// Input:
//     "orders:{usr_id}", of a function with the parameters `user_id` and `order`
//
// Output:
//     const _: () = {
//         let _ = |user_id: &str, order: &str| {
//             let _ = format_args!("orders:{usr_id}");
//         };
//         panic!("{}", "`{usr_id}` is not a parameter ..");
//     };
//
// rustc finds `usr_id` inside the literal and suggests `user_id`. If the name is in scope after all,
// such as that of a static, the constant still fails.
fn unknown_name_check(literal: &LitStr, names: &[Ident], message: &str) -> TokenStream {
    let names = names.iter().filter(|name| *name != "self").map(|name| {
        let mut name = name.clone();
        name.set_span(literal.span());
        name
    });
    let panic = quote_spanned!(reported_at(literal.span())=> ::core::panic!("{}", #message));
    generated! {
        #[allow(unused_variables)]
        const _: () = {
            let _ = |#(#names: &::core::primitive::str),*| {
                let _ = ::core::format_args!(#literal);
            };
            #panic
        };
    }
}
