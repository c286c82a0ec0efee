// #[rate_limit(key = "quote", limits = [(10, "1s"), (limits::HOURLY, "1h")])]
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
            .limits(&[(10, 1000), (limits::HOURLY, 3600000)]),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0.request(1, &[]);
    let () = ::ratelimit_runtime::__private::admit([__request_0]).await;
    { price().await }
}
