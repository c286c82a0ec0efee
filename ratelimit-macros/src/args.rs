//! Parses the attribute's arguments and keeps their spans. Checks syntax only.

mod limits;
mod slot;
mod value;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use ratelimit_spec::{Per, either, nearest_setting, rate};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Path, Token};

use crate::problems::Problems;

pub(crate) use limits::Limits;
pub(crate) use slot::{Arg, Slot};
pub(crate) use value::{Number, krate, quota_in, ungrouped};
use value::{Value, expression, function, identifier, permits};

/// One row per argument: its field, its name if that differs, the type of its value, how that is read, and a valid
/// value for messages.
macro_rules! arguments {
    ($($field:ident $($name:literal)?: $ty:ty = $read:expr, $example:literal;)*) => {
        /// The arguments of one `#[rate_limit(..)]`.
        #[derive(Default)]
        pub(crate) struct Args {
            $(pub(crate) $field: Slot<$ty>,)*
            /// Position of the attribute, unless it is the one being expanded.
            pub(crate) below: Option<Span>,
        }

        const NAMES: &[&str] = &[$(name!($field $($name)?)),*];

        impl Args {
            fn store(&mut self, name: Ident, value: syn::Result<Expr>) -> syn::Result<()> {
                match name.to_string().as_str() {
                    $(name!($field $($name)?) => self.$field.set(name, value, $read),)*
                    unknown => Err(self.unknown(unknown, &name, value.ok().as_ref())),
                }
            }

            fn give_up(&mut self, argument: &str) {
                match argument {
                    $(name!($field $($name)?) => self.$field.give_up(),)*
                    _ => {}
                }
            }

            /// Returns whether an argument is neither given nor reported as broken.
            pub(crate) fn is_absent(&self, argument: &str) -> bool {
                match argument {
                    $(name!($field $($name)?) => self.$field.is_absent(),)*
                    _ => true,
                }
            }

            /// Returns the name as written in the attribute, or `None` if the argument has no value.
            pub(crate) fn name_of(&self, argument: &str) -> Option<&Ident> {
                match argument {
                    $(name!($field $($name)?) => self.$field.name(),)*
                    _ => None,
                }
            }
        }

        fn example(name: &Ident) -> &'static str {
            match name.to_string().as_str() {
                $(name!($field $($name)?) => $example,)*
                _ => "..",
            }
        }
    };
}

macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

/// The settings that are arguments too, and the arguments that only the attribute has.
macro_rules! settings_and_more {
    ($($(#[$doc:meta])* $setting:ident: $of_file:ty $(= $default:expr)? =>
        $(number $range:tt)? $(argument($ty:ty, $example:literal))?;)+) => {
        /// The settings of the limits file, most of which are arguments too.
        const SETTINGS: &[&str] = &[$(stringify!($setting)),+];

        arguments! {
            key: LitStr = Value::read, "\"orders:{user_id}\"";
            $($($setting: $ty = Value::read, $example;)?)+
            permits: Number = permits, "1";
            refund_if: Expr = function, "path::to::function";
            actual: Expr = function, "path::to::function";
            bind: Ident = identifier, "permit";
            fallback: Expr = function, "path::to::function";
            skip_if: Expr = expression, "user.is_admin";
            krate "crate": Path = krate, "::path::to::runtime";
        }
    };
}

ratelimit_spec::settings!(settings_and_more);

impl Args {
    /// Parses all arguments; errors go to `problems`.
    pub(crate) fn parse(tokens: TokenStream, problems: &mut Problems) -> Self {
        let mut args = Self::default();
        let arguments = |input: ParseStream<'_>| {
            while !input.is_empty() {
                if let Err(error) = args.argument(input) {
                    problems.add(error);
                    skip(input, || at_argument(input));
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

    /// Returns the span for messages that have no better one.
    pub(crate) fn place(&self) -> Span {
        self.below.unwrap_or_else(Span::call_site)
    }

    fn argument(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let ahead = input.fork();
        if let Ok(value) = ahead.parse::<Lit>() {
            // `true` is a literal, but `true = 1` looks like an argument to what skips the rest.
            input.advance_to(&ahead);
            return Err(self.without_a_name(&value));
        }
        let name = argument_name(input).inspect_err(|_| {
            // Unless there is just one comma too many.
            if !input.peek(Token![,]) {
                self.give_up_required();
            }
        })?;
        let value = argument_value(&name, input);
        if name == "rate" && value.as_ref().ok().and_then(quota_in).is_some() {
            // The message about it shows the window too.
            self.per.give_up();
        }
        self.store(name.clone(), value)?;
        end_of_argument(&name, input)
    }

    /// Marks all arguments that can be missing as reported: each may be the one without a name.
    pub(crate) fn give_up_required(&mut self) {
        self.key.give_up();
        self.rate.give_up();
        self.per.give_up();
    }

    fn unknown(&mut self, unknown: &str, name: &Ident, value: Option<&Expr>) -> syn::Error {
        if SETTINGS.contains(&unknown) || unknown == "overrides" {
            let message = format!("`{unknown}` is not an argument; set it in the limits file");
            return syn::Error::new(name.span(), message);
        }
        let is_quota = value.and_then(quota_in).is_some();
        let is_number = matches!(value, Some(Expr::Lit(ExprLit { lit: Lit::Int(_), .. })));
        let meant = nearest_setting(unknown, is_number || is_quota, NAMES);
        let suggestion = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("expected {}", either(NAMES)),
        };
        if is_quota {
            // Such a value has the window too.
            self.per.give_up();
        }
        // A misspelled argument is not also a missing one.
        if let Some(meant) = meant {
            self.give_up(meant);
        }
        syn::Error::new(name.span(), format!("unknown argument `{unknown}`; {suggestion}"))
    }

    /// Returns the error for a value without a name. Its form shows which argument was meant.
    fn without_a_name(&mut self, value: &Lit) -> syn::Error {
        let written = value.to_token_stream();
        let advice = match value {
            Lit::Str(text) => match rate::quota_in(&text.value()) {
                Some((rate, per)) => {
                    self.rate.give_up();
                    self.per.give_up();
                    format!("rate = {rate}, per = \"{per}\"")
                }
                None if text.value().parse::<Per>().is_ok() => {
                    self.per.give_up();
                    format!("per = {written}")
                }
                None => {
                    self.key.give_up();
                    format!("key = {written}")
                }
            },
            Lit::Int(_) if self.rate.is_absent() => {
                self.rate.give_up();
                format!("rate = {written}")
            }
            // `rate = 1,000` ends at the comma.
            Lit::Int(_) => "1_000`, without commas in numbers, or `name = value".to_owned(),
            _ => {
                self.give_up_required();
                "name = value`, such as `rate = 100".to_owned()
            }
        };
        let message = format!("expected an argument name; write `{advice}`");
        syn::Error::new(value.span(), message)
    }
}

fn argument_name(input: ParseStream<'_>) -> syn::Result<Ident> {
    let span = input.span();
    input.call(Ident::parse_any).map_err(|_| {
        syn::Error::new(
            span,
            "expected an argument name; write `name = value`, such as `rate = 100`",
        )
    })
}

/// Parses an expression from tokens of its own: syn reports what remains in its brackets only at the end of all tokens.
fn alone(input: ParseStream<'_>) -> syn::Result<Expr> {
    let value = input.parse()?;
    input.parse::<TokenStream>().map(|_| value)
}

/// Parses the code after `name =`, even for unknown names, so that only the name is reported.
pub(crate) fn argument_value(name: &Ident, input: ParseStream<'_>) -> syn::Result<Expr> {
    if !input.peek(Token![=]) || input.peek(Token![==]) || input.peek(Token![=>]) {
        let message = format!("expected `=` after `{name}`; write `{name} = {}`", example(name));
        return Err(syn::Error::new(name.span(), message));
    }
    let equals: Token![=] = input.parse()?;
    if input.is_empty() || input.peek(Token![,]) {
        let message = format!("missing value for `{name}`; write `{name} = {}`", example(name));
        return Err(syn::Error::new(equals.span, message));
    }
    let value = input.fork();
    let expr = value.parse().and_then(|expr| match expr {
        Expr::Lit(_) => Ok(expr),
        _ => alone.parse2(input.fork().parse()?),
    });
    let expr = expr.map_err(|error: syn::Error| {
        // In a value, `x =` is no argument.
        skip(input, || false);
        unreadable(name, &error)
    })?;
    input.advance_to(&value);
    Ok(ungrouped(expr))
}

/// Returns the error for code that is no expression.
fn unreadable(name: &Ident, error: &syn::Error) -> syn::Error {
    let example = example(name);
    // The end of the arguments has no span of its own.
    if error.to_string().starts_with("unexpected end of input") {
        let message = format!("incomplete value for `{name}`; write `{name} = {example}`");
        return syn::Error::new(name.span(), message);
    }
    let message = format!("invalid value for `{name}`; write `{name} = {example}`");
    syn::Error::new(error.span(), message)
}

fn end_of_argument(name: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(());
    }
    let message =
        format!("expected `,` or `)` after the value of `{name}`; separate arguments with commas");
    Err(syn::Error::new(input.span(), message))
}

/// Returns whether an argument that lacks a comma in front of it comes next.
fn at_argument(input: ParseStream<'_>) -> bool {
    input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==])
}

/// Skips to the next comma, or to something else that ends the argument.
fn skip(input: ParseStream<'_>, is_end: impl Fn() -> bool) {
    while !input.is_empty() && !input.peek(Token![,]) && !is_end() {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}
