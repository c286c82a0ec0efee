// #[rate_limit(key = "orders:{user_id}", rate = ORDERS)]
// async fn place(user_id: u64) -> Receipt {
//     order(user_id).await
// }

async fn place(user_id: u64) -> Receipt {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "orders:{user_id}",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
                "::place"
            ),
            rate: __rt::rate(ORDERS),
            declared: __rt::Some(&__rt::FromFile::Rate(5, 60000)),
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
        let __request_0 = __LIMIT_0.acquire(1, &[__rt::key_part(&user_id)]);
        let _ = __request_0.await;
    }
    {
        order(user_id).await
    }
}
