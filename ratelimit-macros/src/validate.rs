//! Validation rules. Every rule runs even if others fail, so that one build reports all errors.

mod conflicts;
mod declared;
mod limits;
mod names;
mod numbers;
mod settlement;

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use ratelimit_spec::{OnStoreError, Settings, Wait, WordError, parse_duration};
use syn::ext::IdentExt;
use syn::{Expr, Ident, LitStr};

use crate::args::Args;
use crate::function::{Code, Function};
use crate::key::Key;
use crate::limits_file::Lookup;
use crate::problems::Problems;

pub(crate) use declared::{Declared, FromFile, Numbers, declared};
pub(crate) use names::{Part, identifier, reference};
pub(crate) use numbers::Permits;
pub(crate) use settlement::bound_names_differ;

/// The message about a wait of no time.
const NO_WAIT: &str = "`wait` is 0; write `wait = \"none\"`";

/// A valid annotation.
pub(crate) struct Guard<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) parts: Vec<Part>,
    pub(crate) numbers: Numbers,
    /// The settings of the annotation; a constant is represented by 1.
    pub(crate) said: Settings,
    pub(crate) burst: Option<Expr>,
    pub(crate) refund_if: Option<&'a Expr>,
    pub(crate) actual: Option<&'a Expr>,
    pub(crate) bind: Option<&'a Ident>,
    pub(crate) permits: Permits<'a>,
    pub(crate) fallback: Option<&'a Expr>,
    pub(crate) skip_if: Option<&'a Expr>,
}

impl Guard<'_> {
    /// Returns whether a call can be rejected.
    pub(crate) fn can_reject(&self) -> bool {
        may_reject(&self.said, self.permits) || self.fallback.is_some()
    }

    /// Returns whether the key or an expression of the annotation has this name in it.
    pub(crate) fn mentions(&self, name: &Ident) -> bool {
        let permits = match self.permits {
            Permits::Computed(expr) => Some(expr),
            Permits::Fixed(_) => None,
        };
        let code = [permits, self.skip_if, self.fallback, self.refund_if, self.actual];
        self.key.placeholders().iter().any(|placeholder| name.unraw() == placeholder.path[0])
            || code.into_iter().flatten().any(|code| holds(code.to_token_stream(), name))
    }

    /// Returns whether the result of the body decides how many permits the call keeps.
    pub(crate) fn settles(&self) -> bool {
        self.said.refund_on.is_some() || self.refund_if.is_some() || self.actual.is_some()
    }
}

/// Returns whether a call with these settings can be rejected.
fn may_reject(said: &Settings, permits: Permits<'_>) -> bool {
    let waits = matches!(said.wait, None | Some(Wait::Forever));
    let asks_the_store = said.on_store_error == Some(OnStoreError::Reject);
    !waits || asks_the_store || matches!(permits, Permits::Computed(_))
}

/// Returns whether code has this word in it, outside of literals.
pub(crate) fn has_word(code: TokenStream, word: &str) -> bool {
    code.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => has_word(group.stream(), word),
        _ => false,
    })
}

/// Returns whether code uses this variable.
pub(crate) fn holds(code: TokenStream, name: &Ident) -> bool {
    code.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => holds(group.stream(), name),
        // A format string may use it, as `{name}` or `{:name$}`.
        TokenTree::Literal(literal) => {
            let (text, name) = (literal.to_string(), name.unraw());
            text.contains(&format!("{{{name}")) || text.contains(&format!("{name}$"))
        }
        TokenTree::Punct(_) => false,
    })
}

/// With two attributes for one key, every call would take permits from one limiter twice.
pub(crate) fn keys_differ(all: &[Args], problems: &mut Problems) {
    let key = |args: &Args| args.key.value().map(|key| (key.value(), key.span()));
    let keys: Vec<_> = all.iter().filter_map(key).collect();
    for (n, (text, span)) in keys.iter().enumerate() {
        if let Some((_, first)) = keys[..n].iter().find(|(other, _)| other == text) {
            problems.at(
                *span,
                format!("duplicate key `{text}` on this function; remove one attribute, or change its key"),
            );
            problems.at(*first, format!("key `{text}` is first used here"));
        }
    }
}

/// Checks an annotation. The result is meaningless if `problems` has any.
pub(crate) fn validate<'a>(
    args: &'a Args,
    function: &Function,
    lookup: &Lookup,
    problems: &mut Problems,
) -> Option<Guard<'a>> {
    let key = key(args, problems);
    let rate = args.rate.given().and_then(|rate| numbers::number(rate, problems));
    let burst = args.burst.given().and_then(|burst| numbers::number(burst, problems));
    let limits = limits::limits(args, problems);
    let said = Settings {
        rate: numbers::known(&args.rate).filter(|_| rate.is_some()),
        burst: numbers::known(&args.burst).filter(|_| burst.is_some()),
        per: args.per.value().and_then(|per| parsed(per, problems)),
        time_zone: args.time_zone.value().and_then(|name| parsed(name, problems)),
        limits: limits.as_ref().map(|limits| limits.known.as_slice().into()),
        mode: args.mode.value().and_then(|word| parsed(word, problems)),
        algorithm: args.algorithm.value().and_then(|word| parsed(word, problems)),
        warm_up: args.warm_up.value().and_then(|text| read(text, parse_duration, problems)),
        wait: args.wait.value().and_then(|word| read(word, wait, problems)),
        on_store_error: args.on_store_error.value().and_then(|word| parsed(word, problems)),
        refund_on: args.refund_on.value().and_then(|word| parsed(word, problems)),
        ..Settings::default()
    };
    settlement::check(args, function, problems);
    let permits = numbers::permits(&args.permits, problems);
    let declared = declared(key.as_ref(), args.place(), lookup, problems);
    let numbers = declared.numbers(args, rate, said.per, problems);
    fallback_can_be_called(args, &said, permits, &declared, problems);
    let pairs = limits.as_ref().map_or(&[][..], |limits| &limits.pairs);
    conflicts::check(args, &said, pairs, permits, &declared, problems);
    let numbers = Numbers { limits: limits.and_then(|limits| limits.code), ..numbers };
    let key = key?;
    let parts = names::parts(&key, function, problems);
    // A misspelled parameter is not also another template.
    if parts.len() == key.placeholders().len() {
        key.is_the_only_one_of_its_names(problems);
    }
    Some(Guard {
        key,
        parts,
        numbers,
        said,
        burst,
        refund_if: args.refund_if.value(),
        actual: args.actual.value(),
        bind: args.bind.value(),
        permits: permits?,
        fallback: args.fallback.value(),
        skip_if: args.skip_if.value(),
    })
}

pub(crate) fn needs_an_async_body(function: &Function, problems: &mut Problems) {
    let sig = &function.sig;
    match &function.body {
        None => problems.on(&sig.ident, "`#[rate_limit]` requires a function body; move it to the method's implementations"),
        Some(body) => match &body.code {
            Code::Async(_) | Code::Boxed(_) => {}
            Code::Sync(_) if crate::async_trait::returns_a_boxed_future(sig) => problems.on(
                sig.fn_token,
                "no `Box::pin(async move { .. })` found in this body; write an `async fn`, or put `#[rate_limit]` above \
                 the attribute that rewrites the body",
            ),
            // Another attribute has made it a plain function.
            Code::Sync(body) if has_word(body.clone(), "block_on") => problems.on(
                sig.fn_token,
                "an attribute above `#[rate_limit]` has removed `async`, as `#[tokio::test]` does; put `#[rate_limit]` \
                 above it",
            ),
            Code::Sync(_) => problems.on(
                sig.fn_token,
                "`#[rate_limit]` requires an `async fn`, because it awaits a permit before the body runs; write `async fn`",
            ),
        },
    }
}

fn key<'a>(args: &'a Args, problems: &mut Problems) -> Option<Key<'a>> {
    if args.key.is_absent() {
        problems.at(
            args.place(),
            "missing `key`, the name of the limiter; write `key = \"orders\"`, or `key = \"orders:{user_id}\"` for one \
             limit per user",
        );
    }
    Key::parse(args.key.value()?, problems)
}

fn parsed<T: FromStr<Err: Display>>(word: &LitStr, problems: &mut Problems) -> Option<T> {
    read(word, str::parse, problems)
}

fn read<T, E: Display>(
    text: &LitStr,
    parse: impl FnOnce(&str) -> Result<T, E>,
    problems: &mut Problems,
) -> Option<T> {
    parse(&text.value()).map_err(|error| problems.at(text.span(), error)).ok()
}

fn wait(word: &str) -> Result<Wait, String> {
    match word.parse() {
        Ok(Wait::UpTo(Duration::ZERO)) => Err(NO_WAIT.to_owned()),
        Err(_) if matches!(word.trim_end_matches(char::is_alphabetic), "0") => {
            Err(NO_WAIT.to_owned())
        }
        wait => wait.map_err(|error: WordError| error.to_string()),
    }
}

/// A fallback that is never called shows that the author expected rejections.
fn fallback_can_be_called(
    args: &Args,
    said: &Settings,
    permits: Option<Permits<'_>>,
    declared: &Declared<'_>,
    problems: &mut Problems,
) {
    let (Some(fallback), Some(permits)) = (args.fallback.given(), permits) else { return };
    // What a word with a mistake is meant to say is not known.
    let is_read = (args.wait.is_absent() || said.wait.is_some())
        && (args.on_store_error.is_absent() || said.on_store_error.is_some());
    if !is_read || may_reject(said, permits) || declared.may_reject() {
        return;
    }
    problems.at(
        fallback.name.span(),
        "`fallback` is never called, because this call waits until a permit is free; write `wait = \"none\"` or \
         `wait = \"2s\"`, or remove `fallback`",
    );
    if let Some(wait) = args.wait.given() {
        problems.at(wait.name.span(), "`wait` is set here");
    }
}
