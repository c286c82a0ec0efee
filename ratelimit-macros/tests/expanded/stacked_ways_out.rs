// #[rate_limit(key = "user:{user}", rate = 2, per = "1s", wait = "none", skip_if = user == 0)]
// #[rate_limit(key = "everyone", rate = 100, per = "1s")]
// #[ratelimit_runtime::rate_limit(key = "rows", rate = 9, per = "1s", permits = rows.len(), fallback = later)]
// #[inline]
// async fn import(user: u64, rows: Vec<Row>) -> Result<(), ImportError> {
//     store(user, rows).await
// }

#[inline]
async fn import(user: u64, rows: Vec<Row>) -> Result<(), ImportError> {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "user:{user}",
                &["user:", ""],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::import"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(2)
            .per_ms(1000)
            .wait(::ratelimit_runtime::__private::Wait::None)
            .fallible(),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    static __LIMIT_1: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "everyone",
                &["everyone"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::import"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(100)
            .per_ms(1000),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_1
    }
    static __LIMIT_2: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "rows",
                &["rows"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::import"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(9)
            .per_ms(1000)
            .computed_permits()
            .fallible(),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_2
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __skip_0: bool = user == 0;
    let __request_0 = if __skip_0 {
        ::ratelimit_runtime::__private::skipped()
    } else {
        __LIMIT_0.request(1, &[::ratelimit_runtime::__private::key_part(&user)])
    };
    let __request_1 = __LIMIT_1.request(1, &[]);
    let __request_2 = __LIMIT_2
        .request(::ratelimit_runtime::__private::permits(rows.len()), &[]);
    let () = match ::ratelimit_runtime::__private::acquire([
            __request_0,
            __request_1,
            __request_2,
        ])
        .await
    {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((__by, __rejection)) => {
            return match __by {
                0 => ::ratelimit_runtime::__private::reject(__rejection),
                _ => {
                    use ::ratelimit_runtime::__private::ResolvePlain as _;
                    ::ratelimit_runtime::__private::answer(__rejection, later)
                        .resolve()
                        .await
                }
            };
        }
    };
    { store(user, rows).await }
}
