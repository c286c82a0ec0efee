//! The expansions: each case is compared with `tests/expanded/<name>.rs`.
//! `BLESS=1 cargo test -p ratelimit-macros` rewrites the files.

mod outcomes;
mod rules;

use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

use proc_macro2::TokenStream;
use quote::quote;
use ratelimit_spec::LimitsFile;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Meta};

use crate::limits_file::{Found, Lookup};

const LIMITS: &str = "
default: { per: 1m }
limiters:
  quote: { rate: 2, per: 1s }
  'orders:{user_id}': { rate: 5 }
";

#[test]
fn a_fixed_key() {
    golden(
        "fixed_key",
        r#"
        /// Answers with today's price.
        #[rate_limit(key = "quote", rate = 2, per = "1s")]
        pub async fn quote(item: &str) -> Price {
            prices().await.of(item)
        }
        "#,
    );
}

#[test]
fn a_key_over_the_parameters() {
    golden(
        "key_over_parameters",
        r#"
        #[rate_limit(key = "{{shop}}:{order.tenant.0}:{self.name}:{user?}:{b}", rate = limits::ORDERS, per = "1h30m")]
        async fn place<'a, T, const N: usize>(&'a self, order: Order, user: Option<u64>, (_, b): (T, u8)) -> Receipt
        where
            T: Send,
        {
            self.ledger.append(order).await
        }
        "#,
    );
}

#[test]
fn every_setting() {
    golden(
        "every_setting",
        r#"
        #[rate_limit(
            key = "quote",
            rate = 100,
            per = "250ms",
            mode = "per_client",
            algorithm = "token_bucket",
            burst = 200,
            permits = 3,
            wait = "2s",
            on_store_error = "reject",
        )]
        async fn quote() -> Result<Price, ShopError> {
            Ok(price().await?)
        }
        "#,
    );
}

#[test]
fn a_call_that_waits_as_long_as_it_takes() {
    golden(
        "wait_forever",
        r#"
        #[rate_limit(key = "quote", rate = 2, per = "1s", wait = "forever", on_store_error = "allow")]
        async fn quote() -> Price {
            price().await
        }
        "#,
    );
}

#[test]
fn a_computed_cost() {
    golden(
        "computed_permits",
        r#"
        #[rate_limit(key = "import:{tenant}", rate = 1000, per = "1m", permits = rows.len())]
        async fn import(tenant: Uuid, rows: Vec<Row>) -> Result<(), ImportError> {
            store(tenant, rows).await
        }
        "#,
    );
}

#[test]
fn a_fallback() {
    golden(
        "fallback",
        r#"
        #[rate_limit(key = "quote", rate = 2, per = "1s", wait = "none", fallback = cache::last_price)]
        async fn quote() -> Price {
            price().await
        }
        "#,
    );
}

#[test]
fn a_condition() {
    golden(
        "skip_if",
        r#"
        #[rate_limit(key = "search:{user.id}", rate = 2, per = "1s", skip_if = user.is_admin || query.is_empty())]
        async fn search(user: &User, query: &str) -> Vec<Hit> {
            index().find(query).await
        }
        "#,
    );
}

#[test]
fn a_renamed_runtime() {
    golden(
        "renamed_runtime",
        r#"
        #[rate_limit(key = "quote", rate = 2, per = "1s", wait = "none", crate = crate::limits)]
        async fn quote() -> Result<Price, Rejection> {
            Ok(price().await)
        }
        "#,
    );
}

#[test]
fn attributes_stay_and_inner_ones_move_out() {
    golden(
        "attributes",
        r#"
        #[must_use]
        #[rate_limit(key = "quote", rate = 2, per = "1s")]
        #[tracing::instrument]
        pub(crate) async unsafe fn quote() -> Price {
            #![allow(dead_code)]
            price().await
        }
        "#,
    );
}

#[test]
fn two_limits_on_one_function() {
    golden(
        "stacked",
        r#"
        #[rate_limit(key = "user:{user}", rate = 2, per = "1s")]
        #[rate_limit(key = "everyone", rate = 100, per = "1s", wait = "none")]
        async fn quote(user: u64) -> Result<Price, ShopError> {
            price(user).await
        }
        "#,
    );
}

#[test]
fn a_method_that_async_trait_has_rewritten() {
    golden(
        "async_trait",
        r#"
        #[rate_limit(key = "orders:{self.name}:{tenant}", rate = 2, per = "1s", permits = self.cost(&order))]
        fn place<'life0, 'async_trait>(
            &'life0 self,
            order: Order,
            __arg2: (Tenant, u8),
        ) -> ::core::pin::Pin<Box<
            dyn ::core::future::Future<Output = Result<Receipt, ShopError>> + ::core::marker::Send + 'async_trait
        >>
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(async move {
                if let ::core::option::Option::Some(__ret) =
                    ::core::option::Option::None::<Result<Receipt, ShopError>>
                {
                    #[allow(unreachable_code)]
                    return __ret;
                }
                let __self = self;
                let order = order;
                let (tenant, _) = {
                    let __arg2 = __arg2;
                    __arg2
                };
                let __ret: Result<Receipt, ShopError> = { __self.ledger.append(tenant, order).await };
                #[allow(unreachable_code)]
                __ret
            })
        }
        "#,
    );
}

#[test]
fn several_limits_with_a_way_out_each() {
    golden(
        "stacked_ways_out",
        r#"
        #[rate_limit(key = "user:{user}", rate = 2, per = "1s", wait = "none", skip_if = user == 0)]
        #[rate_limit(key = "everyone", rate = 100, per = "1s")]
        #[ratelimit_runtime::rate_limit(key = "rows", rate = 9, per = "1s", permits = rows.len(), fallback = later)]
        #[inline]
        async fn import(user: u64, rows: Vec<Row>) -> Result<(), ImportError> {
            store(user, rows).await
        }
        "#,
    );
}

#[test]
fn several_limits_that_refuse_nobody() {
    golden(
        "stacked_forever",
        r#"
        #[rate_limit(key = "user:{user}", rate = 2, per = "1s")]
        #[rate_limit(key = "everyone", rate = 100, per = "1s")]
        async fn price(user: u64) -> Price {
            prices().of(user).await
        }
        "#,
    );
}

#[test]
fn numbers_from_the_limits_file() {
    golden_with(
        "limits_file",
        &limits_file(),
        r#"
        #[rate_limit(key = "quote")]
        async fn quote() -> Price {
            price().await
        }
        "#,
    );
    golden_with(
        "limits_file_gives_the_window",
        &limits_file(),
        r#"
        #[rate_limit(key = "orders:{user_id}", rate = ORDERS)]
        async fn place(user_id: u64) -> Receipt {
            order(user_id).await
        }
        "#,
    );
}

#[test]
fn mistakes_leave_the_function_as_it_was() {
    golden(
        "mistakes",
        r#"
        #[rate_limit(key = "quote", rate = 0, per = "1s", colour = 3)]
        async fn quote() -> Price {
            price().await
        }
        "#,
    );
}

#[test]
fn an_unknown_name_is_left_to_rustc() {
    golden(
        "unknown_name",
        r#"
        #[rate_limit(key = "orders:{usr_id}", rate = 2, per = "1s")]
        async fn place(&self, user_id: u64) -> Receipt {
            order(user_id).await
        }
        "#,
    );
}

#[test]
fn a_handle() {
    golden_limiter("limiter", &Lookup::Nothing, quote!("quote"));
    golden_limiter(
        "limiter_with_values",
        &limits_file(),
        quote!("orders:{user_id}", user_id = session.user()),
    );
}

fn limits_file() -> Lookup {
    found(LIMITS)
}

fn found(text: &str) -> Lookup {
    Lookup::Found(Found {
        path: "/shop/ratelimit.yaml".into(),
        name: "ratelimit.yaml".to_owned(),
        contents: Arc::new(LimitsFile::parse(text)),
    })
}

fn golden(name: &str, source: &str) {
    golden_with(name, &Lookup::Nothing, source);
}

fn golden_with(name: &str, lookup: &Lookup, source: &str) {
    let mut tokens: TokenStream = source.parse().unwrap();
    while let Some((args, item)) = annotation(tokens.clone()) {
        tokens = crate::expand::expand(args, &item, lookup);
    }
    compare(name, source, tokens);
}

fn golden_limiter(name: &str, lookup: &Lookup, input: TokenStream) {
    let source = format!("limiter!({input})");
    let expression = crate::limiter::expand(input, lookup);
    compare(name, &source, quote!(fn handle() -> Limiter { #expression }));
}

/// Returns the arguments of the first `#[rate_limit]`, and the item without it.
fn annotation(item: TokenStream) -> Option<(TokenStream, TokenStream)> {
    let taken_apart = |input: ParseStream<'_>| {
        let attributes = input.call(Attribute::parse_outer)?;
        Ok((attributes, input.parse::<TokenStream>()?))
    };
    let (mut attributes, rest) = taken_apart.parse2(item).unwrap();
    let position =
        attributes.iter().position(|attribute| attribute.path().is_ident("rate_limit"))?;
    let Meta::List(arguments) = attributes.remove(position).meta else {
        panic!("`#[rate_limit]` without arguments");
    };
    Some((arguments.tokens, quote!(#(#attributes)* #rest)))
}

fn compare(name: &str, source: &str, expanded: TokenStream) {
    let indent = source
        .lines()
        .find(|line| !line.trim().is_empty())
        .map_or(0, |line| line.len() - line.trim_start().len());
    let source = source.lines().map(|line| line.get(indent..).unwrap_or_default());
    let source: Vec<String> =
        source.filter(|line| !line.is_empty()).map(|line| format!("// {line}\n")).collect();
    let expanded = prettyplease::unparse(&syn::parse2(expanded).expect("the expansion is an item"));
    let found = format!("{}\n{expanded}", source.concat());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/expanded/{name}.rs"));
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{} is not what is expanded now:\n{found}", path.display());
}
