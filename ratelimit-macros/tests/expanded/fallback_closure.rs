// #[rate_limit(key = "quote", rate = 2, per = "1s", wait = "none", fallback = |rejection| cached(item, rejection))]
// async fn quote(item: &str) -> Price {
//     price(item).await
// }

async fn quote(item: &str) -> Price {
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
            .rate(2)
            .per_ms(1000)
            .wait(::ratelimit_runtime::__private::Wait::None)
            .fallible(),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0.request(1, &[]);
    let () = match ::ratelimit_runtime::__private::acquire([__request_0]).await {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => {
            return {
                use ::ratelimit_runtime::__private::ResolvePlain as _;
                ::ratelimit_runtime::__private::answer(
                        __rejection,
                        |rejection| cached(item, rejection),
                    )
                    .resolve()
                    .await
            };
        }
    };
    { price(item).await }
}
