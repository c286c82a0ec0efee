// #[rate_limit(key = "quote")]
// async fn quote() -> Price {
//     price().await
// }

async fn quote() -> Price {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "quote",
                &["quote"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::quote"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .declared(2, 1000),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: &[u8] = ::core::include_bytes!("/shop/ratelimit.yaml");
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0.request(1, &[]);
    let () = ::ratelimit_runtime::__private::admit([__request_0]).await;
    { price().await }
}
