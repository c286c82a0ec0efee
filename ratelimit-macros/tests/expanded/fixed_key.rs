// /// Answers with today's price.
// #[rate_limit(key = "quote", rate = 2, per = "1s")]
// pub async fn quote(item: &str) -> Price {
//     prices().await.of(item)
// }

/// Answers with today's price.
pub async fn quote(item: &str) -> Price {
    static __LIMIT: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "quote",
                &["quote"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::quote"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(2)
            .per_ms(1000),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __key = __LIMIT.key(&[]);
    __LIMIT.admit(__key, 1u32).await;
    { prices().await.of(item) }
}
