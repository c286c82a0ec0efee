//! Implementation detail of the `ratelimit-runtime` crate, which re-exports both macros.
//!
//! An annotation goes through three stages: `args` parses it, `validate` checks it, and `expand`
//! writes the guarded function. The generated code names only `ratelimit_runtime::__private` and
//! `core`.

use proc_macro::TokenStream;

mod args;
mod async_trait;
mod expand;
mod fragments;
mod function;
mod hygiene;
mod key;
mod limiter;
mod limits_file;
mod problems;
mod renamed;
mod runtime;
mod seen;
mod site;
mod suggest;
mod validate;

#[cfg(test)]
mod golden;

// Documented in the runtime, where the examples compile and the links resolve.
#[allow(missing_docs, reason = "it is documented where users find it")]
#[proc_macro_attribute]
pub fn rate_limit(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), &item.into(), &limits_file::find()).into()
}

#[allow(missing_docs, reason = "it is documented where users find it")]
#[proc_macro]
pub fn limiter(input: TokenStream) -> TokenStream {
    limiter::expand(input.into(), &limits_file::find()).into()
}
