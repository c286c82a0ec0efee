// #[rate_limit(key = "user:{user}", rate = 2, per = "1s", skip_if = user == 0, bind = own)]
// #[rate_limit(key = "everyone", rate = 100, per = "1s")]
// #[rate_limit(key = "tokens", rate = 90_000, per = "1m", wait = "none", bind = tokens)]
// async fn complete(user: u64) -> Result<Answer, LlmError> {
//     model().answer(own, tokens).await
// }

async fn complete(user: u64) -> Result<Answer, LlmError> {
    use ::ratelimit_runtime::__private as __rt;
    static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "user:{user}",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
            "::complete"
        ),
        rate: 2,
        per_ms: 1000,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_0.annotation
    }
    static __LIMIT_1: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "everyone",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
            "::complete"
        ),
        rate: 100,
        per_ms: 1000,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_1.annotation
    }
    static __LIMIT_2: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "tokens",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
            "::complete"
        ),
        rate: 90_000,
        per_ms: 60000,
        wait: __rt::Some(__rt::Wait::None),
        fallible: true,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_2.annotation
    }
    const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
        "RATELIMIT_LIMITS"
    );
    let __skip_0: ::core::primitive::bool = user == 0;
    let __request_0 = if __skip_0 {
        __rt::Request::skipped()
    } else {
        __LIMIT_0.request(1, &[__rt::key_part(&user)])
    };
    let __request_1 = __LIMIT_1.request(1, &[]);
    let __request_2 = __LIMIT_2.request(1, &[]);
    let [__permit_0, _, tokens] = match __rt::acquire([
            __request_0,
            __request_1,
            __request_2,
        ])
        .await
    {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => return __rt::reject(__rejection),
    };
    let own = (!__skip_0).then_some(__permit_0);
    {
        model().answer(own, tokens).await
    }
}
