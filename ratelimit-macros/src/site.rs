//! The static of one call site, as calls into `ratelimit_runtime::__private`.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use ratelimit_spec::{Limit, Per, Wait};

use crate::hygiene::{generated, reported_at};
use crate::key::Key;
use crate::limits_file::Lookup;
use crate::problems::Problems;
use crate::validate::{DeclaredNumbers, Numbers, Part};
use crate::{renamed, seen};

/// Paths into the runtime.
pub(crate) struct Runtime(TokenStream);

impl Runtime {
    pub(crate) fn new(krate: Option<&syn::Path>) -> Self {
        Self(match krate {
            Some(path) => path.to_token_stream(),
            None => generated!(::ratelimit_runtime),
        })
    }

    /// The same, but reports a renamed dependency whose name is not given.
    pub(crate) fn find(krate: Option<&syn::Path>, place: Span, problems: &mut Problems) -> Self {
        match renamed::runtime().filter(|_| krate.is_none()) {
            Some(name) => {
                if seen::reports("the runtime's name", place) {
                    problems.at(place, format!("`ratelimit_runtime` is named `{name}` in this crate; write `crate = ::{name}`"));
                }
                let name = Ident::new_raw(name, Span::mixed_site());
                Self(generated!(::#name))
            }
            None => Self::new(krate),
        }
    }

    /// `::ratelimit_runtime::Limiter`
    pub(crate) fn limiter(&self) -> TokenStream {
        let krate = &self.0;
        generated!(#krate::Limiter)
    }

    /// `use ::ratelimit_runtime::__private as __rt;`
    ///
    /// No other code names the crate, so that an unresolved path is one error. The tokens of the path keep their spans,
    /// because `$crate` resolves by them.
    pub(crate) fn import(&self) -> TokenStream {
        let krate = &self.0;
        generated!(use #krate::__private as __rt;)
    }

    /// Whether a path is this one and a name.
    pub(crate) fn is_parent_of(&self, path: &syn::Path, name: &str) -> bool {
        let child = format!("{} :: {name}", self.0);
        let path = path.to_token_stream().to_string();
        path.trim_start_matches(":: ") == child.trim_start_matches(":: ")
    }

    /// `__rt`
    pub(crate) fn private(&self) -> TokenStream {
        self.private_at(Span::mixed_site())
    }

    /// The same, reported at a place of the user's source.
    pub(crate) fn private_at(&self, place: Span) -> TokenStream {
        Ident::new("__rt", reported_at(place)).into_token_stream()
    }

    /// `__rt::name(arguments)`, reported from one place to another.
    pub(crate) fn call(
        &self,
        name: &str,
        (from, to): (Span, Span),
        arguments: &TokenStream,
    ) -> TokenStream {
        let private = self.private_at(from);
        let name = Ident::new(name, reported_at(to));
        let path = quote_spanned!(reported_at(from)=> #private::#name);
        quote_spanned!(reported_at(to)=> #path(#arguments))
    }
}

// Input:
//     "orders:{user_id}", module `shop`, function `place_order`
//
// Output:
//     Annotation::new("orders:{user_id}", &["orders:", ""], Location::new("shop::place_order", file!(), line!()))
//
// `start` is where a mistake in it begins that rustc finds while it evaluates a constant.
pub(crate) fn annotation(
    runtime: &Runtime,
    key: &Key<'_>,
    function: Option<&str>,
    start: Span,
) -> TokenStream {
    let (private, private_at_start) = (runtime.private(), runtime.private_at(start));
    let (text, pieces) = (key.text(), key.template.literals());
    let place = match function {
        Some(function) => {
            let function = format!("::{function}");
            generated!(::core::concat!(::core::module_path!(), #function))
        }
        None => generated!(::core::module_path!()),
    };
    let arguments = generated! {
        #text,
        &[#(#pieces),*],
        #private::Location::new(#place, ::core::file!(), ::core::line!()),
    };
    quote_spanned!(reported_at(start)=> #private_at_start::Annotation::new(#arguments))
}

/// `&__LIMIT` in the program's list of limits, and the reasons to compile this crate again.
pub(crate) fn registration(runtime: &Runtime, lookup: &Lookup) -> TokenStream {
    let submission = submission(runtime, &generated_name("__LIMIT"));
    let dependencies = dependencies(lookup);
    generated!(#submission #dependencies)
}

/// A static in the program's list of limits.
pub(crate) fn submission(runtime: &Runtime, limit: &Ident) -> TokenStream {
    let private = runtime.private();
    generated!(#private::submit! { &#limit })
}

/// The reasons to compile this crate again: the limits file and the variable that names it.
pub(crate) fn dependencies(lookup: &Lookup) -> TokenStream {
    let contents = lookup.found().and_then(|found| include(&found.path));
    generated! {
        #contents
        const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!("RATELIMIT_LIMITS");
    }
}

fn include(path: &Path) -> Option<TokenStream> {
    let path = path.to_str()?;
    Some(generated!(
        const _: &[::core::primitive::u8] = ::core::include_bytes!(#path);
    ))
}

/// What the limits file sets: as below, or `.declared_limits(&[(10, 1000, None, None)])`.
pub(crate) fn declared(runtime: &Runtime, numbers: &Numbers) -> TokenStream {
    let mut settings = TokenStream::new();
    if let Some(numbers) = &numbers.declared {
        settings.extend(declared_numbers(runtime, numbers));
    }
    if let Some(limits) = &numbers.declared_limits {
        let limits = limits.iter().map(|limit| declared_limit(runtime, limit));
        settings.extend(generated!(.declared_limits(&[#(#limits),*])));
    }
    settings
}

fn declared_limit(runtime: &Runtime, limit: &Limit) -> TokenStream {
    fn option(value: Option<TokenStream>) -> TokenStream {
        match value {
            Some(value) => generated!(::core::option::Option::Some(#value)),
            None => generated!(::core::option::Option::None),
        }
    }
    let (rate, per) = (Literal::u32_unsuffixed(limit.rate), milliseconds(limit.per));
    let algorithm = option(limit.algorithm.map(|algorithm| word(runtime, "Algorithm", algorithm)));
    let burst = limit.burst.map(|burst| Literal::u32_unsuffixed(burst).to_token_stream());
    let burst = option(burst);
    generated!((#rate, #per, #algorithm, #burst))
}

/// `&[key_part(&user_id)]`
pub(crate) fn parts(runtime: &Runtime, parts: &[Part]) -> TokenStream {
    let parts = parts.iter().map(|Part { reference, optional, place }| {
        let name = if *optional { "key_part_or_absent" } else { "key_part" };
        runtime.call(name, (*place, *place), reference)
    });
    generated!(&[#(#parts),*])
}

/// `__rt::Mode::PerClient`, or another word by its type and its name there.
pub(crate) fn word(runtime: &Runtime, ty: &str, word: impl Debug) -> TokenStream {
    let private = runtime.private();
    let (ty, variant) = (generated_name(ty), generated_name(&format!("{word:?}")));
    generated!(#private::#ty::#variant)
}

pub(crate) fn wait(runtime: &Runtime, wait: Wait) -> TokenStream {
    let Wait::UpTo(longest) = wait else {
        return word(runtime, "Wait", wait);
    };
    let private = runtime.private();
    let longest = milliseconds(longest);
    generated!(#private::Wait::UpTo(::core::time::Duration::from_millis(#longest)))
}

/// `.per_ms(1000)`, or `.unit(CalendarUnit::Day)`
pub(crate) fn per(runtime: &Runtime, per: Per) -> TokenStream {
    match per.unit.map(|unit| word(runtime, "CalendarUnit", unit)) {
        Some(unit) => generated!(.unit(#unit)),
        None => {
            let per = milliseconds(per.length);
            generated!(.per_ms(#per))
        }
    }
}

/// `.declared(100, 1000)`, or `.declared_unit(100, CalendarUnit::Day, "Europe/Vienna")`
fn declared_numbers(runtime: &Runtime, numbers: &DeclaredNumbers) -> TokenStream {
    let DeclaredNumbers { rate, per, time_zone } = numbers;
    match per.unit.map(|unit| word(runtime, "CalendarUnit", unit)) {
        Some(unit) => {
            let zone = time_zone.name();
            generated!(.declared_unit(#rate, #unit, #zone))
        }
        None => {
            let per = milliseconds(per.length);
            generated!(.declared(#rate, #per))
        }
    }
}

fn generated_name(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

pub(crate) fn milliseconds(duration: Duration) -> Literal {
    Literal::u64_unsuffixed(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
