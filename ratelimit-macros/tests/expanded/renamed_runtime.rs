// #[rate_limit(key = "quote", rate = 2, per = "1s", wait = "none", crate = crate::limits)]
// async fn quote() -> Result<Price, Rejection> {
//     Ok(price().await)
// }

async fn quote() -> Result<Price, Rejection> {
    {
        use crate::limits::__private as __rt;
        static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "quote",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
                "::quote"
            ),
            rate: 2,
            per_ms: 1000,
            wait: __rt::Some(__rt::Wait::None),
            fallible: true,
            ..__rt::Annotation::NONE
        });
        __rt::submit! {
            & __LIMIT_0.annotation
        }
        const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
            "RATELIMIT_LIMITS"
        );
        let __request_0 = __LIMIT_0.acquire(1, &[]);
        if let __rt::Some(__rejection) = __request_0.await {
            return __rt::reject(__rejection);
        }
    }
    {
        Ok(price().await)
    }
}
