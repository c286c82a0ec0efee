// #[rate_limit(key = "quote")]
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
            declared: __rt::Some(&__rt::FromFile::Rate(2, 1000)),
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
        price().await
    }
}
