// #[rate_limit(key = "user:{user}", rate = 2, per = "1s", refund_on = "never")]
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
            .per_ms(1000)
            .refund_on(::ratelimit_runtime::__private::RefundOn::Never),
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
    let [__permit_0, _] = match ::ratelimit_runtime::__private::acquire([
            __request_0,
            __request_1,
        ])
        .await
    {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => {
            return ::ratelimit_runtime::__private::reject(__rejection);
        }
    };
    let __result: Result<Price, ShopError> = async move {
        if let ::core::option::Option::Some(__result) = ::core::option::Option::None::<
            Result<Price, ShopError>,
        > {
            return __result;
        }
        { price(user).await }
    }
        .await;
    let __used_0 = ::ratelimit_runtime::__private::refund_on(&__permit_0, &__result);
    ::ratelimit_runtime::__private::settle_later(__permit_0, __used_0);
    __result
}
