// #[rate_limit(key = "user:{user}", rate = 2, per = "1s", skip_if = user == 0, bind = own)]
// #[rate_limit(key = "everyone", rate = 100, per = "1s")]
// #[rate_limit(key = "tokens", rate = 90_000, per = "1m", wait = "none", bind = tokens)]
// async fn complete(user: u64) -> Result<Answer, LlmError> {
//     model().answer(own, tokens).await
// }

async fn complete(user: u64) -> Result<Answer, LlmError> {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "user:{user}",
                &["user:", ""],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::complete"),
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
    static __LIMIT_1: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "everyone",
                &["everyone"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::complete"),
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
                "tokens",
                &["tokens"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::complete"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(90_000)
            .per_ms(60000)
            .wait(::ratelimit_runtime::__private::Wait::None)
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
    let __request_2 = __LIMIT_2.request(1, &[]);
    let [__permit_0, _, tokens] = match ::ratelimit_runtime::__private::acquire([
            __request_0,
            __request_1,
            __request_2,
        ])
        .await
    {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => {
            return ::ratelimit_runtime::__private::reject(__rejection);
        }
    };
    let own = (!__skip_0).then_some(__permit_0);
    { model().answer(own, tokens).await }
}
