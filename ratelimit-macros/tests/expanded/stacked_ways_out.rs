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
    let __skip: bool = user == 0;
    let __asked_0 = if __skip {
        ::ratelimit_runtime::__private::skipped()
    } else {
        __LIMIT_0
            .asks(
                __LIMIT_0.key(&[::ratelimit_runtime::__private::key_part(&user)]),
                1u32,
            )
    };
    let __asked_1 = __LIMIT_1.asks(__LIMIT_1.key(&[]), 1u32);
    let __asked_2 = {
        let __permits = ::ratelimit_runtime::__private::permits(rows.len());
        __LIMIT_2.asks(__LIMIT_2.key(&[]), __permits)
    };
    if let ::core::result::Result::Err((__by, __rejection)) = ::ratelimit_runtime::__private::acquire_all([
            __asked_0,
            __asked_1,
            __asked_2,
        ])
        .await
    {
        return match __by {
            0 => ::ratelimit_runtime::__private::reject(__rejection),
            _ => {
                use ::ratelimit_runtime::__private::SettlePlain as _;
                ::ratelimit_runtime::__private::Answer(later(__rejection)).settle().await
            }
        };
    }
    { store(user, rows).await }
}
