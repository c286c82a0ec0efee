// #[rate_limit(key = "user:{user}", rate = 2, per = "1s")]
// #[rate_limit(key = "everyone", rate = 100, per = "1s", wait = "none")]
// async fn quote(user: u64) -> Result<Price, ShopError> {
//     price(user).await
// }

async fn quote(user: u64) -> Result<Price, ShopError> {
    static __LIMIT: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "everyone",
                &["everyone"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::quote"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(100)
            .per_ms(1000)
            .wait(::ratelimit_runtime::__private::Wait::None)
            .fallible(),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __key = __LIMIT.key(&[]);
    if let ::core::result::Result::Err(__rejection) = __LIMIT.acquire(__key, 1u32).await
    {
        return ::ratelimit_runtime::__private::reject(__rejection);
    }
    {
        static __LIMIT: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
            ::ratelimit_runtime::__private::Annotation::new(
                    "user:{user}",
                    &["user:", ""],
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
        let __key = __LIMIT.key(&[::ratelimit_runtime::__private::key_part(&user)]);
        __LIMIT.admit(__key, 1u32).await;
        { price(user).await }
    }
}
