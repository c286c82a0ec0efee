// #[rate_limit(key = "quote", rate = 2, per = "1s", wait = "none", fallback = |rejection| cached(item, rejection))]
// async fn quote(item: &str) -> Price {
//     price(item).await
// }

async fn quote(item: &str) -> Price {
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
            return {
                use __rt::{
                    GetAnswer as _, ResolveFuture as _, ResolveNever as _,
                    ResolvePlain as _,
                };
                let __later = match __rt::answer::<
                    Price,
                    _,
                >(__rejection, |rejection| cached(item, rejection))
                    .resolve()
                {
                    __rt::Resolved::Now(__plain) => return __plain.get(),
                    __rt::Resolved::Later(__later) => __later,
                };
                let __later = ::core::pin::pin!(__later);
                async { __later.await }.await
            };
        }
    }
    {
        price(item).await
    }
}
