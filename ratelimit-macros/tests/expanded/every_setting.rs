// #[rate_limit(
//     key = "quote",
//     rate = 100,
//     per = "250ms",
//     mode = "per_client",
//     algorithm = "token_bucket",
//     burst = 200,
//     permits = 3,
//     wait = "2s",
//     on_store_error = "reject",
// )]
// async fn quote() -> Result<Price, ShopError> {
//     Ok(price().await?)
// }

async fn quote() -> Result<Price, ShopError> {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "quote",
                &["quote"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::quote"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(100)
            .per_ms(250)
            .mode(::ratelimit_runtime::__private::Mode::PerClient)
            .algorithm(::ratelimit_runtime::__private::Algorithm::TokenBucket)
            .burst(200)
            .wait(
                ::ratelimit_runtime::__private::Wait::UpTo(
                    ::core::time::Duration::from_millis(2000),
                ),
            )
            .on_store_error(::ratelimit_runtime::__private::OnStoreError::Reject)
            .permits(3)
            .fallible(),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0.request(3, &[]);
    let () = match ::ratelimit_runtime::__private::acquire([__request_0]).await {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => {
            return ::ratelimit_runtime::__private::reject(__rejection);
        }
    };
    { Ok(price().await?) }
}
