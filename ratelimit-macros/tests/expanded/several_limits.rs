// #[rate_limit(key = "quote", limits = [(10, "1s"), (limits::HOURLY, "1h")])]
// async fn quote() -> Price {
//     price().await
// }

async fn quote() -> Price {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "quote",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
                "::quote"
            ),
            rare: __rt::Some(
                &__rt::Rare {
                    limits: __rt::Some(
                        &[(10, 1000), (__rt::rate(limits::HOURLY), 3600000)],
                    ),
                    ..__rt::Rare::NONE
                },
            ),
            ..__rt::Annotation::NONE
        });
        __rt::submit! {
            & __LIMIT_0.annotation
        }
        const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
            "RATELIMIT_LIMITS"
        );
        let __request_0 = __LIMIT_0.acquire(1, &[]);
        let _ = __request_0.await;
    }
    {
        price().await
    }
}
