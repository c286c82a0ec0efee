// #[rate_limit(key = "user:{user}", rate = 2, per = "1s")]
// #[rate_limit(key = "everyone", rate = 100, per = "1s")]
// async fn price(user: u64) -> Price {
//     prices().of(user).await
// }

async fn price(user: u64) -> Price {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "user:{user}",
                &["user:", ""],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::price"),
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
                    ::core::concat!(::core::module_path!(), "::price"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(100)
            .per_ms(1000),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_1
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0
        .request(1, &[::ratelimit_runtime::__private::key_part(&user)]);
    let __request_1 = __LIMIT_1.request(1, &[]);
    let () = ::ratelimit_runtime::__private::admit([__request_0, __request_1]).await;
    { prices().of(user).await }
}
