// #[rate_limit(key = "user:{user}", rate = 2, per = "1s")]
// #[rate_limit(key = "everyone", rate = 100, per = "1s", wait = "none")]
// async fn quote(user: u64) -> Result<Price, ShopError> {
//     price(user).await
// }

async fn quote(user: u64) -> Result<Price, ShopError> {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
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
        & __LIMIT_0
    }
    static __LIMIT_1: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
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
        & __LIMIT_1
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0
        .request(1, &[::ratelimit_runtime::__private::key_part(&user)]);
    let __request_1 = __LIMIT_1.request(1, &[]);
    let () = match ::ratelimit_runtime::__private::acquire([__request_0, __request_1])
        .await
    {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => {
            return ::ratelimit_runtime::__private::reject(__rejection);
        }
    };
    { price(user).await }
}
