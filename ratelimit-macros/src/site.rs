//! The static of one call site, as calls into `ratelimit_runtime::__private`.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::ToTokens;
use ratelimit_spec::{Limit, Wait};

use crate::hygiene::generated;
use crate::key::Key;
use crate::limits_file::Lookup;
use crate::runtime::Runtime;
use crate::seen;
use crate::validate::{FromFile, Numbers, Part};

// Input:
//     "orders:{user_id}", function `place_order`, settings `rate: 100, per_ms: 1000,`
//
// Output (`__rt::` left out):
//     static __LIMIT_0: CallSite = CallSite::new(Annotation {
//         key: "orders:{user_id}",
//         at: "src/shop.rs:12 shop::place_order",
//         rate: 100,
//         per_ms: 1000,
//         ..Annotation::NONE
//     });
//     submit! { &__LIMIT_0.annotation }
pub(crate) fn site(
    runtime: &Runtime,
    limit: &Ident,
    key: &Key<'_>,
    function: Option<&str>,
    settings: &TokenStream,
) -> TokenStream {
    let (private, key) = (runtime.private(), key.text());
    let function = function.map(|function| format!("::{function}")).into_iter();
    generated! {
        static #limit: #private::CallSite = #private::CallSite::new(#private::Annotation {
            key: #key,
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!() #(, #function)*
            ),
            #settings
            ..#private::Annotation::NONE
        });
        #private::submit! { &#limit.annotation }
    }
}

/// The limits file, for the program and as a reason to recompile this crate, like the variable that names it. The first
/// annotation of a crate states them for all.
pub(crate) fn dependencies(runtime: &Runtime, lookup: &Lookup) -> TokenStream {
    if !seen::is_first("the reasons to recompile", Span::call_site()) {
        return TokenStream::new();
    }
    let contents = lookup.found().and_then(|found| include(&found.path));
    let private = runtime.private();
    let name = lookup.found().map(|found| &found.name).into_iter();
    generated! {
        #(#private::submit! { #private::CompiledWith(#name) })*
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

/// The limits of the limits file: `declared: Some(&FromFile::Rate(100, 1000)),`, or with
/// `FromFile::Calendar(100, CalendarUnit::Day, "Europe/Vienna")`, or
/// `FromFile::Several(&[(10, 1000, None, None)])`.
pub(crate) fn declared(runtime: &Runtime, numbers: &Numbers) -> TokenStream {
    let limits = match &numbers.from_file {
        Some(FromFile::One { rate, per, time_zone }) => match per.unit {
            Some(unit) => {
                let (unit, zone) = (word(runtime, "CalendarUnit", unit), time_zone.name());
                generated!(Calendar(#rate, #unit, #zone))
            }
            None => {
                let per = milliseconds(per.length);
                generated!(Rate(#rate, #per))
            }
        },
        Some(FromFile::Several(limits)) => {
            let limits = limits.iter().map(|limit| declared_limit(runtime, limit));
            generated!(Several(&[#(#limits),*]))
        }
        None => return TokenStream::new(),
    };
    let private = runtime.private();
    generated!(declared: #private::Some(&#private::FromFile::#limits),)
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

/// `__rt::Mode::PerClient`, or another enum value by its type and its name there.
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

fn generated_name(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

pub(crate) fn milliseconds(duration: Duration) -> Literal {
    Literal::u64_unsuffixed(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
