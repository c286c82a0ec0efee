// #[must_use]
// #[rate_limit(key = "quote", rate = 2, per = "1s")]
// #[tracing::instrument]
// pub(crate) async unsafe fn quote() -> Price {
//     #![allow(dead_code)]
//     price().await
// }

#[must_use]
#[tracing::instrument]
#[allow(dead_code)]
pub(crate) async unsafe fn quote() -> Price {
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
            .rate(2)
            .per_ms(1000),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0.request(1, &[]);
    let () = ::ratelimit_runtime::__private::admit([__request_0]).await;
    { price().await }
}
