// #[rate_limit(key = "orders:{user_id}", rate = ORDERS)]
// async fn place(user_id: u64) -> Receipt {
//     order(user_id).await
// }

async fn place(user_id: u64) -> Receipt {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
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
        & __LIMIT_0
    }
    const _: &[u8] = ::core::include_bytes!("/shop/ratelimit.yaml");
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0
        .request(1, &[::ratelimit_runtime::__private::key_part(&user_id)]);
    let () = ::ratelimit_runtime::__private::admit([__request_0]).await;
    { order(user_id).await }
}
