//! The annotated function: its signature parsed, its body left as tokens.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    AttrStyle, Attribute, FnArg, Meta, Pat, PatIdent, ReturnType, Signature, Token, Type,
    Visibility, braced, token,
};

use crate::async_trait::{self, Boxed};
use crate::runtime::Runtime;

/// A function, with or without a body.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Option<Body>,
}

/// The code between the outer braces.
pub(crate) struct Body {
    pub(crate) braces: token::Brace,
    pub(crate) code: Code,
}

pub(crate) enum Code {
    /// The body of an `async fn`. Kept as tokens: editors can complete unfinished code, and errors keep their spans.
    Async(TokenStream),
    /// An `async fn` rewritten by `#[async_trait]`.
    Boxed(Boxed),
    /// No future to guard.
    Sync(TokenStream),
}

/// A variable that a parameter binds.
pub(crate) struct Variable {
    /// The attributes of the parameter that apply to its variables too: `cfg`, and levels of lints.
    pub(crate) attrs: Vec<Attribute>,
    /// Whether the parameter expects lints, such as that it is unused.
    pub(crate) expects: bool,
    pub(crate) mutability: Option<Token![mut]>,
    pub(crate) name: Ident,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let sig: Signature = input.parse()?;
        if input.parse::<Option<Token![;]>>()?.is_some() {
            return Ok(Self { attrs, vis, sig, body: None });
        }
        let content;
        let braces = braced!(content in input);
        // Our block is nested in the function's, where inner attributes are not allowed.
        for mut attr in content.call(Attribute::parse_inner)? {
            attr.style = AttrStyle::Outer;
            attrs.push(attr);
        }
        let code = Code::read(&sig, content.parse()?);
        Ok(Self { attrs, vis, sig, body: Some(Body { braces, code }) })
    }
}

impl Code {
    fn read(sig: &Signature, tokens: TokenStream) -> Self {
        if sig.asyncness.is_some() {
            return Self::Async(tokens);
        }
        match Boxed::find(sig, &tokens) {
            Some(boxed) => Self::Boxed(boxed),
            None => Self::Sync(tokens),
        }
    }
}

impl Function {
    pub(crate) fn name(&self) -> String {
        self.sig.ident.unraw().to_string()
    }

    /// Returns whether the body is an `async` block, which declares no type of its own.
    pub(crate) fn is_boxed(&self) -> bool {
        self.boxed().is_some()
    }

    fn boxed(&self) -> Option<&Boxed> {
        match &self.body.as_ref()?.code {
            Code::Boxed(boxed) => Some(boxed),
            Code::Async(_) | Code::Sync(_) => None,
        }
    }

    /// Returns the span of the body.
    pub(crate) fn body_span(&self) -> Span {
        self.body.as_ref().map_or_else(Span::call_site, |body| body.braces.span.join())
    }

    /// Returns the names a key may use: those that the parameters bind, `self`, and const generics.
    pub(crate) fn names(&self) -> Vec<Ident> {
        let constants = self.sig.generics.const_params().map(|constant| constant.ident.clone());
        let parameters = self.sig.inputs.iter().flat_map(|input| match input {
            FnArg::Receiver(receiver) => vec![receiver.self_token.into()],
            FnArg::Typed(typed) => names_of(&typed.pat),
        });
        let mut names: Vec<Ident> = parameters.chain(constants).collect();
        if let Some(boxed) = self.boxed() {
            // The signature then has `__arg1` for a pattern, which is in the body.
            for name in boxed.parameters().flat_map(|(_, pat)| names_of(pat)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names.retain(|name| name != "__self" && !name.to_string().starts_with("__arg"));
        }
        names
    }

    /// Returns the variables that the parameters bind, in order of declaration, without the receiver.
    pub(crate) fn variables(&self) -> Vec<Variable> {
        let parameters: Vec<(&[Attribute], &Pat)> = match self.boxed() {
            Some(boxed) => boxed.parameters().collect(),
            None => self.sig.inputs.iter().filter_map(parameter).collect(),
        };
        let variables = parameters.into_iter().flat_map(|(attrs, pat)| {
            let expects = attrs.iter().any(|attr| names_any(attr, &["expect"]));
            let applies = |attr: &&Attribute| {
                attr.path().is_ident("cfg") || names_any(attr, &["allow", "warn", "deny"])
            };
            let attrs: Vec<_> = attrs.iter().filter(applies).cloned().collect();
            bound_by(pat).into_iter().map(move |bound| {
                let mutability = bound.mutability.filter(|_| bound.by_ref.is_none());
                Variable { attrs: attrs.clone(), expects, mutability, name: bound.ident.clone() }
            })
        });
        variables.filter(|variable| variable.name != "__self").collect()
    }

    /// Returns the identifier of the receiver at the guard.
    pub(crate) fn receiver(&self) -> Option<Ident> {
        let receiver = self.sig.receiver()?;
        let moved = self.boxed().and_then(Boxed::receiver);
        Some(moved.unwrap_or_else(|| receiver.self_token.into()))
    }

    /// Returns the first and the last span of the return type.
    pub(crate) fn return_type_span(&self) -> (Span, Span) {
        let name = self.sig.ident.span();
        self.output().map_or((name, name), ends)
    }

    /// Returns the type of the body's result, or `None` for `()`.
    pub(crate) fn output(&self) -> Option<&Type> {
        match &self.sig.output {
            ReturnType::Default => None,
            ReturnType::Type(_, declared) => {
                let boxed = self.boxed().and_then(|_| async_trait::output_of(declared));
                Some(boxed.unwrap_or(declared))
            }
        }
    }

    /// Removes the other `#[rate_limit]` attributes of this function and returns them in source order. An attribute of
    /// another crate with the same name is not one.
    pub(crate) fn take_limits(&mut self, runtime: &Runtime) -> Vec<Attribute> {
        let usual = Runtime::new(None);
        let is_limit = |attr: &mut Attribute| {
            let path = attr.path();
            path.is_ident("rate_limit")
                || [runtime, &usual].iter().any(|runtime| runtime.exports(path))
        };
        self.attrs.extract_if(.., is_limit).collect()
    }

    /// Returns an argument's code with `self` replaced by the receiver at the guard.
    pub(crate) fn in_its_body(&self, code: TokenStream) -> TokenStream {
        match self.boxed().and_then(Boxed::receiver) {
            Some(receiver) => replace_self(code, &receiver),
            None => code,
        }
    }
}

/// Returns the first and the last span of some code; joining them needs a nightly compiler.
pub(crate) fn ends(code: impl ToTokens) -> (Span, Span) {
    let mut tokens = code.into_token_stream().into_iter();
    let Some(first) = tokens.next() else {
        return (Span::call_site(), Span::call_site());
    };
    let end = match tokens.last().as_ref().unwrap_or(&first) {
        TokenTree::Group(group) => group.span_close(),
        other => other.span(),
    };
    let start = match &first {
        TokenTree::Group(group) => group.span_open(),
        other => other.span(),
    };
    (start, end)
}

fn replace_self(code: TokenStream, receiver: &Ident) -> TokenStream {
    let mut tokens = code.into_iter().peekable();
    let mut replaced = TokenStream::new();
    while let Some(token) = tokens.next() {
        // `self::cost` is a path and always names this module.
        let in_a_path =
            matches!(tokens.peek(), Some(TokenTree::Punct(colon)) if colon.as_char() == ':');
        replaced.extend([match token {
            TokenTree::Ident(name) if name == "self" && !in_a_path => {
                let mut receiver = receiver.clone();
                receiver.set_span(receiver.span().located_at(name.span()));
                TokenTree::Ident(receiver)
            }
            TokenTree::Group(group) => {
                let mut inner =
                    Group::new(group.delimiter(), replace_self(group.stream(), receiver));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other,
        }]);
    }
    replaced
}

fn parameter(input: &FnArg) -> Option<(&[Attribute], &Pat)> {
    match input {
        FnArg::Receiver(_) => None,
        FnArg::Typed(typed) => Some((&typed.attrs, &typed.pat)),
    }
}

/// Returns whether an attribute has one of these names, or is a `cfg_attr` with one of them in it.
fn names_any(attr: &Attribute, names: &[&str]) -> bool {
    let is_one = |token: TokenTree| matches!(token, TokenTree::Ident(name) if names.iter().any(|one| name == one));
    match &attr.meta {
        Meta::List(list) if list.path.is_ident("cfg_attr") => {
            list.tokens.clone().into_iter().any(is_one)
        }
        meta => names.iter().any(|name| meta.path().is_ident(name)),
    }
}

fn names_of(pat: &Pat) -> Vec<Ident> {
    bound_by(pat).into_iter().map(|bound| bound.ident.clone()).collect()
}

/// Returns the variables that a pattern binds.
fn bound_by(pat: &Pat) -> Vec<&PatIdent> {
    fn all(pats: &Punctuated<Pat, Token![,]>) -> Vec<&PatIdent> {
        pats.iter().flat_map(bound_by).collect()
    }
    match pat {
        Pat::Ident(bound) => {
            let within = bound.subpat.iter().flat_map(|(_, pat)| bound_by(pat));
            std::iter::once(bound).chain(within).collect()
        }
        Pat::Tuple(tuple) => all(&tuple.elems),
        Pat::TupleStruct(tuple) => all(&tuple.elems),
        Pat::Slice(slice) => all(&slice.elems),
        Pat::Struct(fields) => {
            fields.fields.iter().flat_map(|field| bound_by(&field.pat)).collect()
        }
        Pat::Reference(reference) => bound_by(&reference.pat),
        Pat::Paren(inner) => bound_by(&inner.pat),
        Pat::Type(typed) => bound_by(&typed.pat),
        // Every alternative binds the same names; what else looks like one is a constant.
        Pat::Or(alternatives) => {
            let mut cases = alternatives.cases.iter().map(bound_by);
            let mut bound = cases.next().unwrap_or_default();
            for case in cases {
                bound.retain(|pat| case.iter().any(|other| other.ident == pat.ident));
            }
            bound
        }
        _ => Vec::new(),
    }
}
