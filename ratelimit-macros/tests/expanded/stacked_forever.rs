// #[rate_limit(key = "user:{user}", rate = 2, per = "1s")]
// #[rate_limit(key = "everyone", rate = 100, per = "1s")]
// async fn price(user: u64) -> Price {
//     prices().of(user).await
// }

async fn price(user: u64) -> Price {
    use ::ratelimit_runtime::__private as __rt;
    static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "user:{user}",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(), "::price"
        ),
        rate: 2,
        per_ms: 1000,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_0.annotation
    }
    static __LIMIT_1: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "everyone",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(), "::price"
        ),
        rate: 100,
        per_ms: 1000,
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
    let [_, _] = __rt::admit([__request_0, __request_1]).await;
    {
        prices().of(user).await
    }
}
