//! What the user wrote between the parentheses, with its places. Only syntax is judged here.

mod limits;
mod slot;
mod value;

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, LitStr, Path, Token};

use crate::problems::Problems;
use crate::suggest::did_you_mean;

pub(crate) use limits::Limit;
pub(crate) use slot::{Arg, Slot};
pub(crate) use value::Number;
use value::{example, function, krate, permits, rate, text, ungrouped};

/// The arguments of one `#[rate_limit(..)]`.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) key: Slot<LitStr>,
    pub(crate) rate: Slot<Number>,
    pub(crate) per: Slot<LitStr>,
    pub(crate) time_zone: Slot<LitStr>,
    pub(crate) limits: Slot<Vec<Limit>>,
    pub(crate) mode: Slot<LitStr>,
    pub(crate) algorithm: Slot<LitStr>,
    pub(crate) burst: Slot<Number>,
    pub(crate) warm_up: Slot<LitStr>,
    pub(crate) permits: Slot<Number>,
    pub(crate) wait: Slot<LitStr>,
    pub(crate) on_store_error: Slot<LitStr>,
    pub(crate) refund_on: Slot<LitStr>,
    pub(crate) fallback: Slot<Path>,
    pub(crate) skip_if: Slot<Expr>,
    pub(crate) krate: Slot<Path>,
    /// Where it stands, unless it is the attribute that is being expanded.
    pub(crate) below: Option<Span>,
}

impl Args {
    /// Reads as much as can be read; what cannot goes to `problems`.
    pub(crate) fn parse(tokens: TokenStream, problems: &mut Problems) -> Self {
        let mut args = Self::default();
        let arguments = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if let Err(error) = args.argument(input) {
                    problems.add(error);
                    skip_to_argument(input);
                }
                input.parse::<Option<Token![,]>>()?;
            }
            Ok(())
        };
        if let Err(error) = arguments.parse2(tokens) {
            problems.add(error);
        }
        args
    }

    /// Where messages without a better place go.
    pub(crate) fn place(&self) -> Span {
        self.below.unwrap_or_else(Span::call_site)
    }

    fn argument(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        if let Ok(key) = input.fork().parse::<LitStr>() {
            self.key.give_up();
            let message = format!("expected an argument's name; write `key = {}`", key.token());
            return Err(syn::Error::new(key.span(), message));
        }
        let name = argument_name(input)?;
        let value = argument_value(&name, input);
        self.store(name.clone(), value)?;
        end_of_argument(&name, input)
    }

    fn store(&mut self, name: Ident, value: syn::Result<Expr>) -> syn::Result<()> {
        match name.to_string().as_str() {
            "key" => self.key.set(name, value, text),
            "rate" => self.rate.set(name, value, rate),
            "per" => self.per.set(name, value, text),
            "time_zone" => self.time_zone.set(name, value, text),
            "limits" => self.limits.set(name, value, limits::limits),
            "mode" => self.mode.set(name, value, text),
            "algorithm" => self.algorithm.set(name, value, text),
            "burst" => self.burst.set(name, value, rate),
            "warm_up" => self.warm_up.set(name, value, text),
            "permits" => self.permits.set(name, value, permits),
            "wait" => self.wait.set(name, value, text),
            "on_store_error" => self.on_store_error.set(name, value, text),
            "refund_on" => self.refund_on.set(name, value, text),
            "fallback" => self.fallback.set(name, value, function),
            "skip_if" => self.skip_if.set(name, value, |_, value| Ok(value)),
            "crate" => self.krate.set(name, value, krate),
            unknown => {
                self.give_up_what_was_meant(unknown);
                let suggestion = did_you_mean(unknown, value::names());
                Err(syn::Error::new(
                    name.span(),
                    format!("unknown argument `{unknown}`; {suggestion}"),
                ))
            }
        }
    }

    /// A misspelt argument is not also a missing one.
    fn give_up_what_was_meant(&mut self, unknown: &str) {
        match ratelimit_spec::nearest(unknown, value::names()) {
            Some("key") => self.key.give_up(),
            Some("rate") => self.rate.give_up(),
            Some("per") => self.per.give_up(),
            Some("limits") => self.limits.give_up(),
            Some("algorithm") => self.algorithm.give_up(),
            Some("burst") => self.burst.give_up(),
            Some("warm_up") => self.warm_up.give_up(),
            Some("wait") => self.wait.give_up(),
            Some("on_store_error") => self.on_store_error.give_up(),
            Some("refund_on") => self.refund_on.give_up(),
            _ => {}
        }
    }
}

fn argument_name(input: ParseStream<'_>) -> syn::Result<Ident> {
    let span = input.span();
    input.call(Ident::parse_any).map_err(|_| {
        syn::Error::new(
            span,
            "expected an argument's name; write `name = value`, such as `rate = 100`",
        )
    })
}

/// The code after `name =`; unknown names are read too, so that only their name is reported.
fn argument_value(name: &Ident, input: ParseStream<'_>) -> syn::Result<Expr> {
    if !input.peek(Token![=]) || input.peek(Token![==]) {
        let message =
            format!("`{name}` takes its value after `=`; write `{name} = {}`", example(name));
        return Err(syn::Error::new(name.span(), message));
    }
    let equals: Token![=] = input.parse()?;
    if input.is_empty() || input.peek(Token![,]) {
        let message = format!("`{name}` has no value; write `{name} = {}`", example(name));
        return Err(syn::Error::new(equals.span, message));
    }
    input.parse().map(ungrouped).map_err(|error: syn::Error| {
        // The end of the arguments has no place of its own.
        let half_written = error.to_string().starts_with("unexpected end of input");
        let message =
            format!("the value of `{name}` ends too early; write `{name} = {}`", example(name));
        if half_written { syn::Error::new(name.span(), message) } else { error }
    })
}

fn end_of_argument(name: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(());
    }
    let message = format!("expected `,` or `)` after the value of `{name}`");
    Err(syn::Error::new(input.span(), message))
}

/// On to the next comma, or to the argument that lacks one in front of it.
fn skip_to_argument(input: ParseStream<'_>) {
    let at_argument =
        || input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]);
    while !input.is_empty() && !input.peek(Token![,]) && !at_argument() {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}
