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
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "quote",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
                "::quote"
            ),
            rate: 100,
            per_ms: 250,
            mode: __rt::Some(__rt::Mode::PerClient),
            algorithm: __rt::Some(__rt::Algorithm::TokenBucket),
            burst: 200,
            wait: __rt::Some(
                __rt::Wait::UpTo(::core::time::Duration::from_millis(2000)),
            ),
            on_store_error: __rt::Some(__rt::OnStoreError::Reject),
            cost: __rt::Cost::Literal(3),
            fallible: true,
            ..__rt::Annotation::NONE
        });
        __rt::submit! {
            & __LIMIT_0.annotation
        }
        const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
            "RATELIMIT_LIMITS"
        );
        let __request_0 = __LIMIT_0.acquire(3, &[]);
        if let __rt::Some(__rejection) = __request_0.await {
            return __rt::reject(__rejection);
        }
    }
    {
        Ok(price().await?)
    }
}
