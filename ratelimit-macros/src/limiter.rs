//! `limiter!`: the handle of a key.

use proc_macro2::{Group, Literal, Span, TokenStream};
use quote::ToTokens;
use ratelimit_spec::{Placeholder, Template};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::token::Paren;
use syn::{Expr, Ident, Lit, LitStr, Path, Token};

use crate::args::{argument_value, krate};
use crate::fragments::parenthesize;
use crate::hygiene::{generated, parenthesized, reported_at};
use crate::key::{Key, written};
use crate::limits_file::Lookup;
use crate::problems::Problems;
use crate::runtime::Runtime;
use crate::site;
use crate::suggest::did_you_mean;
use crate::validate::{Part, declared, identifier, reference};

/// Arguments of the attribute that set the limits.
const LIMITS: [&str; 3] = ["rate", "per", "limits"];

/// `"orders:{user_id}", user_id = 42`
struct Call {
    key: LitStr,
    krate: Option<Path>,
    bindings: Vec<Binding>,
}

/// `user_id = 42`, `order.tenant = tenant`, or `addr.ip() = ip`.
struct Binding {
    name: String,
    span: Span,
    value: Expr,
}

impl Parse for Call {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.parse::<LitStr>().map_err(|error| {
            syn::Error::new(error.span(), "`limiter!` requires a key as its first argument; write `limiter!(\"orders:{user_id}\", user_id = 42)`")
        })?;
        let (mut runtime, mut bindings) = (None, Vec::new());
        while !input.is_empty() {
            let place = input.span();
            if input.parse::<Token![,]>().is_err() {
                let message = "expected `,`; write `limiter!(\"orders:{user_id}\", user_id = 42)`";
                return Err(syn::Error::new(place, message));
            }
            if input.is_empty() {
                break;
            }
            if input.peek(Token![crate]) {
                let name = input.call(Ident::parse_any)?;
                runtime = Some(krate(&name, argument_value(&name, input)?)?);
            } else {
                bindings.push(Binding::parse(input, &key)?);
            }
        }
        Ok(Self { key, krate: runtime, bindings })
    }
}

impl Binding {
    fn parse(input: ParseStream<'_>, key: &LitStr) -> syn::Result<Self> {
        let start = input.span();
        let expected = |value: &str| {
            let template = Template::parse(&key.value());
            let name = match template.as_ref().map(Template::placeholders) {
                Ok([only]) => written(only),
                _ => "name".to_owned(),
            };
            format!("expected a placeholder value; write `{name} = {value}`")
        };
        let value = || {
            input.parse::<Expr>().map_err(|error| {
                // The end of the macro's input has no span of its own.
                let at_the_end = error.to_string().starts_with("unexpected end of input");
                let place = if at_the_end { start } else { error.span() };
                syn::Error::new(place, expected("value"))
            })
        };
        if let Some(name) = name(input) {
            return Ok(Self { name, span: start, value: value()? });
        }
        let argument = value()?;
        let message = match &argument {
            Expr::Lit(literal) => expected(&literal.to_token_stream().to_string()),
            _ => expected("value"),
        };
        Err(syn::Error::new_spanned(argument, message))
    }
}

/// Takes the text of a placeholder, such as `order.tenant.0` or `addr.ip()`, and the `=` after it. As in `format!`, a keyword
/// is a name too.
fn name(input: ParseStream<'_>) -> Option<String> {
    let ahead = input.fork();
    let mut name = Ident::parse_any(&ahead).ok()?.unraw().to_string();
    while ahead.peek(Token![.]) {
        ahead.parse::<Token![.]>().ok()?;
        if ahead.peek(Lit) {
            // Of `pair.0.1` it is `0.1`.
            name = format!("{name}.{}", ahead.parse::<Literal>().ok()?);
            continue;
        }
        name = format!("{name}.{}", Ident::parse_any(&ahead).ok()?.unraw());
        if ahead.peek(Paren) {
            if !ahead.parse::<Group>().ok()?.stream().is_empty() {
                return None;
            }
            name.push_str("()");
        }
    }
    if ahead.peek(Token![==]) {
        return None;
    }
    ahead.parse::<Token![=]>().ok()?;
    input.advance_to(&ahead);
    Some(name)
}

// Input:
//     limiter!("orders:{tenant}:{user_id}", user_id = 42)
//
// Output (`__rt::` left out):
//     {
//         use ::ratelimit_runtime::__private as __rt;
//         static __LIMIT: CallSite = CallSite::new(Annotation { .. });
//         submit! { &__LIMIT.annotation }
//         const _: Option<&str> = option_env!("RATELIMIT_LIMITS");
//         match (&(42),) {
//             (__part0,) => __LIMIT.limiter(&[key_part(&tenant), key_part(__part0)]),
//         }
//     }
pub(crate) fn expand(input: TokenStream, lookup: &Lookup) -> TokenStream {
    let mut problems = Problems::default();
    let call: Call = match syn::parse2(parenthesize(input)) {
        Ok(call) => call,
        Err(error) => {
            problems.add(error);
            return mistaken(&Runtime::new(None), problems);
        }
    };
    let runtime = Runtime::find(call.krate.as_ref(), Span::call_site(), &mut problems);
    let key = Key::parse(&call.key, &mut problems);
    let numbers = declared(key.as_ref(), Span::call_site(), lookup, &mut problems).alone();
    let parts = key.as_ref().map(|key| parts(key, &call.bindings, &mut problems));
    if let Some(key) = key.as_ref().filter(|_| problems.is_empty()) {
        key.is_the_only_one_of_its_names(&mut problems);
    }
    match key.zip(parts) {
        Some((key, parts)) if problems.is_empty() => {
            let (import, private) = (runtime.import(), runtime.private());
            let declared = site::declared(&runtime, &numbers);
            // The holder decides which permits to release, and how many a call takes.
            let settings =
                generated!(#declared judges: true, cost: #private::Cost::OfHandle, fallible: true,);
            let limit = Ident::new("__LIMIT", Span::mixed_site());
            let site = site::site(&runtime, &limit, &key, None, &settings);
            let dependencies = site::dependencies(&runtime, lookup);
            let handle = handle(&runtime, &call, &parts);
            generated! {
                {
                    #import
                    #site
                    #dependencies
                    #handle
                }
            }
        }
        _ => mistaken(&runtime, problems),
    }
}

/// Returns the mistakes, as an expression of the expected type.
fn mistaken(runtime: &Runtime, problems: Problems) -> TokenStream {
    let (errors, _) = problems.into_tokens();
    let limiter = runtime.public("Limiter");
    generated!({ #errors ::core::option::Option::<#limiter>::None.unwrap() })
}

/// A `match` binds the values, so that each is evaluated once and in order, and their borrows live long enough.
fn handle(runtime: &Runtime, call: &Call, parts: &[Part]) -> TokenStream {
    let parts = site::parts(runtime, parts);
    if call.bindings.is_empty() {
        return generated!(__LIMIT.limiter(#parts));
    }
    let values = call.bindings.iter().map(|binding| parenthesized(&binding.value));
    let names = (0..call.bindings.len()).map(part_name);
    generated! {
        match (#(&#values,)*) {
            (#(#names,)*) => __LIMIT.limiter(#parts),
        }
    }
}

/// Each value has a placeholder; a placeholder without a value comes from the scope, as in `format!`.
fn parts(key: &Key<'_>, bindings: &[Binding], problems: &mut Problems) -> Vec<Part> {
    let placeholders: Vec<String> = key.placeholders().iter().map(written).collect();
    for (position, Binding { name, span, .. }) in bindings.iter().enumerate() {
        let message = if bindings[..position].iter().any(|earlier| earlier.name == *name) {
            format!("duplicate value for `{name}`; remove one")
        } else if placeholders.contains(name) {
            continue;
        } else if LIMITS.contains(&name.as_str()) {
            format!(
                "`limiter!` does not set `{name}`; set it in an attribute with this key, or in the limits file"
            )
        } else if placeholders.is_empty() {
            format!("the key has no placeholder `{{{name}}}`; remove this argument")
        } else {
            let suggestion = did_you_mean(name, placeholders.iter().map(String::as_str));
            format!("the key has no placeholder `{{{name}}}`; {suggestion}")
        };
        problems.at(*span, message);
    }
    key.placeholders().iter().map(|placeholder| part(key, placeholder, bindings)).collect()
}

fn part(key: &Key<'_>, placeholder: &Placeholder, bindings: &[Binding]) -> Part {
    let (name, optional) = (written(placeholder), placeholder.optional);
    match bindings.iter().position(|binding| binding.name == name) {
        Some(position) => {
            let place = bindings[position].value.span();
            let mut value = part_name(position);
            value.set_span(reported_at(place));
            Part { reference: value.into_token_stream(), optional, place }
        }
        None => {
            let place = key.span_of(placeholder);
            // The name resolves in the scope of the key's literal.
            let root = identifier(&placeholder.path[0], key.literal.span().located_at(place));
            Part { reference: reference(placeholder, &root, place), optional, place }
        }
    }
}

fn part_name(position: usize) -> Ident {
    Ident::new(&format!("__part{position}"), Span::mixed_site())
}
