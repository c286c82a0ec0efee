// #[rate_limit(key = "quote", rate = 2, per = "1s", wait = "none", crate = crate::limits)]
// async fn quote() -> Result<Price, Rejection> {
//     Ok(price().await)
// }

async fn quote() -> Result<Price, Rejection> {
    static __LIMIT_0: crate::limits::__private::CallSite = crate::limits::__private::CallSite::new(
        crate::limits::__private::Annotation::new(
                "quote",
                &["quote"],
                crate::limits::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::quote"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(2)
            .per_ms(1000)
            .wait(crate::limits::__private::Wait::None)
            .fallible(),
    );
    crate::limits::__private::submit! {
        & __LIMIT_0
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0.request(1, &[]);
    let () = match crate::limits::__private::acquire([__request_0]).await {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => {
            return crate::limits::__private::reject(__rejection);
        }
    };
    { Ok(price().await) }
}
