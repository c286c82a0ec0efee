// #[rate_limit(key = "user:{user}", rate = 2, per = "1s", refund_on = "never")]
// #[rate_limit(key = "everyone", rate = 100, per = "1s", wait = "none")]
// async fn quote(user: u64) -> Result<Price, ShopError> {
//     price(user).await
// }

async fn quote(user: u64) -> Result<Price, ShopError> {
    use ::ratelimit_runtime::__private as __rt;
    static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "user:{user}",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(), "::quote"
        ),
        rate: 2,
        per_ms: 1000,
        refund_on: __rt::Some(__rt::RefundOn::Never),
        judges: true,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_0.annotation
    }
    static __LIMIT_1: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "everyone",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(), "::quote"
        ),
        rate: 100,
        per_ms: 1000,
        wait: __rt::Some(__rt::Wait::None),
        fallible: true,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_1.annotation
    }
    const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
        "RATELIMIT_LIMITS"
    );
    let __request_0 = __LIMIT_0.request(1, &[__rt::key_part(&user)]);
    let __request_1 = __LIMIT_1.request(1, &[]);
    let [__permit_0, _] = match __rt::acquire([__request_0, __request_1]).await {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => return __rt::reject(__rejection),
    };
    let __result: Result<Price, ShopError> = async move {
        if let ::core::option::Option::Some(__result) = ::core::option::Option::None::<
            Result<Price, ShopError>,
        > {
            return __result;
        }
        #[allow(clippy::shadow_same)]
        let user = user;
        let _ = &user;
        {
            price(user).await
        }
    }
        .await;
    let __used_0 = __rt::refund_on(&__permit_0, &__result);
    __rt::settle_later(__permit_0, __used_0);
    return __result;
}
