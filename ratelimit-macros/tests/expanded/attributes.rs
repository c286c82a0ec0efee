// #[must_use]
// #[rate_limit(key = "quote", rate = 2, per = "1s")]
// #[tracing::instrument]
// pub(crate) async unsafe fn quote() -> Price {
//     #![allow(dead_code)]
//     price().await
// }

#[must_use]
#[tracing::instrument]
#[allow(dead_code)]
pub(crate) async unsafe fn quote() -> Price {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "quote",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
                "::quote"
            ),
            rate: 2,
            per_ms: 1000,
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
