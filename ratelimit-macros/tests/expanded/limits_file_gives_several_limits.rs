// #[rate_limit(key = "export")]
// async fn export() -> Rows {
//     rows().await
// }

async fn export() -> Rows {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "export",
                &["export"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::export"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .declared_limits(
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
                        ::core::option::Option::Some(
                            ::ratelimit_runtime::__private::Algorithm::TokenBucket,
                        ),
                        ::core::option::Option::Some(20),
                    ),
                ],
            ),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: &[u8] = ::core::include_bytes!("/shop/ratelimit.yaml");
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0.request(1, &[]);
    let () = ::ratelimit_runtime::__private::admit([__request_0]).await;
    { rows().await }
}
