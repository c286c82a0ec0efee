// #[rate_limit(key = "search:{user.id}", rate = 2, per = "1s", skip_if = user.is_admin || query.is_empty())]
// async fn search(user: &User, query: &str) -> Vec<Hit> {
//     index().find(query).await
// }

async fn search(user: &User, query: &str) -> Vec<Hit> {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "search:{user.id}",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
                "::search"
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
        let __skip_0: ::core::primitive::bool = user.is_admin || query.is_empty();
        let __request_0 = if __skip_0 {
            __rt::Acquire::skipped()
        } else {
            __LIMIT_0.acquire(1, &[__rt::key_part(&user.id)])
        };
        let _ = __request_0.await;
    }
    {
        index().find(query).await
    }
}
