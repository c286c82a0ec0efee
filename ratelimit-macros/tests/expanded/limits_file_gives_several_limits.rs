// #[rate_limit(key = "export")]
// async fn export() -> Rows {
//     rows().await
// }

async fn export() -> Rows {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "export",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
                "::export"
            ),
            declared: __rt::Some(
                &__rt::FromFile::Several(
                    &[
                        (
                            10,
                            1000,
                            ::core::option::Option::None,
                            ::core::option::Option::None,
                        ),
                        (
                            5,
                            1000,
                            ::core::option::Option::Some(__rt::Algorithm::TokenBucket),
                            ::core::option::Option::Some(20),
                        ),
                    ],
                ),
            ),
            ..__rt::Annotation::NONE
        });
        __rt::submit! {
            & __LIMIT_0.annotation
        }
        __rt::submit! {
            __rt::CompiledWith("ratelimit.yaml")
        }
        const _: &[::core::primitive::u8] = ::core::include_bytes!(
            "/shop/ratelimit.yaml"
        );
        const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
            "RATELIMIT_LIMITS"
        );
        let __request_0 = __LIMIT_0.acquire(1, &[]);
        let _ = __request_0.await;
    }
    {
        rows().await
    }
}
