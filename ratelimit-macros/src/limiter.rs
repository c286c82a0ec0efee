//! `limiter!`: the handle of a key.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use ratelimit_spec::{Placeholder, nearest};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Expr, ExprAssign, ExprField, Ident, LitStr, Member, Path, Token};

use crate::hygiene::{generated, reported_at};
use crate::key::{Key, written};
use crate::limits_file::Lookup;
use crate::problems::Problems;
use crate::site::{self, Runtime};
use crate::suggest::did_you_mean;
use crate::validate::{Part, declared};

/// `"orders:{user_id}", user_id = 42`
struct Call {
    key: LitStr,
    krate: Option<Path>,
    bindings: Vec<Binding>,
}

/// `user_id = 42`, or `order.tenant = tenant`.
struct Binding {
    name: String,
    span: Span,
    value: Expr,
}

impl Parse for Call {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.parse::<LitStr>().map_err(|error| {
            syn::Error::new(error.span(), "`limiter!` takes a key first; write `limiter!(\"orders:{user_id}\", user_id = 42)`")
        })?;
        let (mut krate, mut bindings) = (None, Vec::new());
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                krate = Some(input.call(Path::parse_mod_style)?);
            } else {
                bindings.push(input.parse()?);
            }
        }
        Ok(Self { key, krate, bindings })
    }
}

impl Parse for Binding {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let start = input.span();
        let written = input.parse()?;
        if let Expr::Assign(ExprAssign { left, right, .. }) = &written
            && let Some(name) = name(left)
        {
            return Ok(Self { name, span: start, value: Expr::clone(right) });
        }
        Err(syn::Error::new_spanned(
            written,
            "expected a placeholder and its value; write `name = value`",
        ))
    }
}

/// `order.tenant.0`, as placeholders are written.
fn name(place: &Expr) -> Option<String> {
    match place {
        Expr::Path(path) => path.path.get_ident().map(|name| name.unraw().to_string()),
        Expr::Field(ExprField { base, member, .. }) => {
            let field = match member {
                Member::Named(field) => field.unraw().to_string(),
                Member::Unnamed(field) => field.index.to_string(),
            };
            Some(format!("{}.{field}", name(base)?))
        }
        _ => None,
    }
}

// Input:
//     limiter!("orders:{user_id}", user_id = 42)
//
// Output (paths shortened):
//     {
//         static __LIMIT: CallSite = CallSite::new(Annotation::new(..).handle());
//         submit! { &__LIMIT }
//         const _: Option<&str> = option_env!("RATELIMIT_LIMITS");
//         match (&42,) {
//             (__part0,) => __LIMIT.limiter(&[key_part(__part0)]),
//         }
//     }
pub(crate) fn expand(input: TokenStream, lookup: &Lookup) -> TokenStream {
    let mut problems = Problems::default();
    let call: Call = match syn::parse2(input) {
        Ok(call) => call,
        Err(error) => {
            problems.add(error);
            return mistaken(&Runtime::new(None), problems);
        }
    };
    let runtime = Runtime::new(call.krate.as_ref());
    let key = Key::parse(&call.key, &mut problems);
    let numbers = declared(key.as_ref(), Span::call_site(), lookup, &mut problems).alone();
    let parts = key.as_ref().map(|key| parts(key, &call.bindings, &mut problems));
    match key.zip(parts) {
        Some((key, parts)) if problems.is_empty() => {
            let private = runtime.private();
            let annotation = site::annotation(&runtime, &key, None, Span::call_site());
            let registration = site::registration(&runtime, lookup);
            let numbers = site::declared(&runtime, &numbers);
            let handle = handle(&runtime, &call, &parts);
            generated! {
                {
                    static __LIMIT: #private::CallSite = #private::CallSite::new(#annotation #numbers.handle());
                    #registration
                    #handle
                }
            }
        }
        _ => mistaken(&runtime, problems),
    }
}

/// The mistakes, as an expression of the type that was wanted.
fn mistaken(runtime: &Runtime, problems: Problems) -> TokenStream {
    let (errors, _) = problems.into_tokens();
    let limiter = runtime.limiter();
    generated!({ #errors ::core::option::Option::<#limiter>::None.unwrap() })
}

/// Bound by a `match`, the values are evaluated once and in order, and what they borrow lives long enough.
fn handle(runtime: &Runtime, call: &Call, parts: &[Part]) -> TokenStream {
    let parts = site::parts(runtime, parts);
    if call.bindings.is_empty() {
        return generated!(__LIMIT.limiter(#parts));
    }
    let values = call.bindings.iter().map(|binding| &binding.value);
    let names = (0..call.bindings.len()).map(part_name);
    generated! {
        match (#(&#values,)*) {
            (#(#names,)*) => __LIMIT.limiter(#parts),
        }
    }
}

/// Each placeholder has one value, and each value a placeholder.
fn parts(key: &Key<'_>, bindings: &[Binding], problems: &mut Problems) -> Vec<Part> {
    let placeholders: Vec<String> = key.placeholders().iter().map(written).collect();
    let placeholders = || placeholders.iter().map(String::as_str);
    let mut missing: Vec<&str> = Vec::new();
    for name in placeholders() {
        if !missing.contains(&name) && bindings.iter().all(|binding| binding.name != name) {
            missing.push(name);
        }
    }
    for (position, Binding { name, span, .. }) in bindings.iter().enumerate() {
        if bindings[..position].iter().any(|earlier| earlier.name == *name) {
            problems.at(*span, format!("`{name}` is given twice; keep one of them"));
        } else if placeholders().next().is_none() {
            problems
                .at(*span, format!("the key has no placeholder `{{{name}}}`; remove the value"));
        } else if placeholders().all(|known| known != name) {
            // A misspelt value is not also a missing one.
            let meant = nearest(name, missing.iter().copied());
            missing.retain(|name| Some(*name) != meant);
            let suggestion = did_you_mean(
                name,
                meant.map_or_else(|| placeholders().collect(), |meant| vec![meant]),
            );
            problems.at(*span, format!("the key has no placeholder `{{{name}}}`; {suggestion}"));
        }
    }
    if !missing.is_empty() {
        let values: Vec<String> = missing.iter().map(|name| format!("{name} = ..")).collect();
        let message = format!(
            "the key has placeholders without a value; write `{}` after it",
            values.join(", ")
        );
        problems.at(key.literal.span(), message);
    }
    key.placeholders().iter().filter_map(|placeholder| part(placeholder, bindings)).collect()
}

fn part(placeholder: &Placeholder, bindings: &[Binding]) -> Option<Part> {
    let name = written(placeholder);
    let position = bindings.iter().position(|binding| binding.name == name)?;
    let place = bindings[position].value.span();
    let mut reference = part_name(position);
    reference.set_span(reported_at(place));
    Some(Part { reference: reference.into_token_stream(), optional: placeholder.optional, place })
}

fn part_name(position: usize) -> Ident {
    Ident::new(&format!("__part{position}"), Span::mixed_site())
}
