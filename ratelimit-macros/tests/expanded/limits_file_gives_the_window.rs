// #[rate_limit(key = "orders:{user_id}", rate = ORDERS)]
// async fn place(user_id: u64) -> Receipt {
//     order(user_id).await
// }

async fn place(user_id: u64) -> Receipt {
    static __LIMIT: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "orders:{user_id}",
                &["orders:", ""],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::place"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(ORDERS)
            .declared(5, 60000),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT
    }
    const _: &[u8] = ::core::include_bytes!("/shop/ratelimit.yaml");
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __key = __LIMIT.key(&[::ratelimit_runtime::__private::key_part(&user_id)]);
    __LIMIT.admit(__key, 1u32).await;
    { order(user_id).await }
}
