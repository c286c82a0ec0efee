// #[rate_limit(key = "quote", limits = [(10, "1s"), (limits::HOURLY, "1h")])]
// async fn quote() -> Price {
//     price().await
// }

async fn quote() -> Price {
    static __LIMIT: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
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
        & __LIMIT
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __key = __LIMIT.key(&[]);
    __LIMIT.admit(__key, 1u32).await;
    { price().await }
}
