//! Paths into the runtime, under any crate name.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::Type;

use crate::hygiene::{generated, reported_at};
use crate::problems::Problems;
use crate::renamed::{self, Dependency};
use crate::seen;

/// Paths into the runtime.
pub(crate) struct Runtime(TokenStream);

impl Runtime {
    pub(crate) fn new(krate: Option<&syn::Path>) -> Self {
        Self(match krate {
            Some(path) => path.to_token_stream(),
            None => generated!(::ratelimit_runtime),
        })
    }

    /// Returns the paths, and reports if the usual one cannot be right.
    pub(crate) fn find(krate: Option<&syn::Path>, place: Span, problems: &mut Problems) -> Self {
        match renamed::runtime() {
            Dependency::Renamed(name) if krate.is_none() => {
                if seen::is_first("the runtime's name", place) {
                    problems.at(place, format!("`ratelimit_runtime` is named `{name}` in this crate; write `crate = ::{name}`"));
                }
                let name = Ident::new_raw(name, Span::mixed_site());
                Self(generated!(::#name))
            }
            Dependency::Missing if krate.is_none() => {
                problems.at(
                    place,
                    "`ratelimit_runtime` is not a dependency of this crate; write `crate = path::to::ratelimit_runtime`, or \
                     add it to `Cargo.toml`",
                );
                Self::new(None)
            }
            _ => Self::new(krate),
        }
    }

    /// A public type, such as `::ratelimit_runtime::Limiter`.
    pub(crate) fn public(&self, ty: &str) -> TokenStream {
        let (krate, ty) = (&self.0, Ident::new(ty, Span::mixed_site()));
        generated!(#krate::#ty)
    }

    /// `use ::ratelimit_runtime::__private as __rt;`
    ///
    /// No other code names the crate, so that an unresolved path is one error. The tokens of the path keep their spans,
    /// because `$crate` resolves by them.
    pub(crate) fn import(&self) -> TokenStream {
        let krate = &self.0;
        generated!(use #krate::__private as __rt;)
    }

    /// Returns whether the attribute of a path is ours: `rate_limit` of the runtime, or of what re-exports it.
    pub(crate) fn exports(&self, path: &syn::Path) -> bool {
        let [own, path] = [&self.0, &path.to_token_stream()].map(ToString::to_string);
        let (own, path) = (own.trim_start_matches(":: "), path.trim_start_matches(":: "));
        let rest = path.strip_suffix(" :: rate_limit").and_then(|parent| own.strip_prefix(parent));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" ::"))
    }

    /// `__rt`
    pub(crate) fn private(&self) -> TokenStream {
        self.private_at(Span::mixed_site())
    }

    /// `__rt`, reported at a location in the user's source.
    pub(crate) fn private_at(&self, place: Span) -> TokenStream {
        Ident::new("__rt", reported_at(place)).into_token_stream()
    }

    /// `__rt::name(arguments)`, reported from one location to another.
    pub(crate) fn call(
        &self,
        name: &str,
        (from, to): (Span, Span),
        arguments: &TokenStream,
    ) -> TokenStream {
        self.call_of(name, None, (from, to), arguments)
    }

    /// `__rt::name::<ty>(arguments)`, reported from one location to another.
    pub(crate) fn call_of(
        &self,
        name: &str,
        ty: Option<&Type>,
        (from, to): (Span, Span),
        arguments: &TokenStream,
    ) -> TokenStream {
        let private = self.private_at(from);
        let name = Ident::new(name, reported_at(to));
        let path = quote_spanned!(reported_at(from)=> #private::#name);
        let ty = ty.map(|ty| quote_spanned!(reported_at(to)=> ::<#ty>));
        quote_spanned!(reported_at(to)=> #path #ty(#arguments))
    }
}
