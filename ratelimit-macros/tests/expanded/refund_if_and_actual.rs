// #[rate_limit(
//     key = "tokens:{tenant}",
//     rate = 90_000,
//     per = "1m",
//     permits = estimate(prompt),
//     refund_if = LlmError::is_ours,
//     actual = |answer| answer.as_ref().ok().map(|answer| answer.tokens),
// )]
// async fn complete(tenant: u64, prompt: &str) -> Result<Answer, LlmError> {
//     model().complete(prompt).await
// }

async fn complete(tenant: u64, prompt: &str) -> Result<Answer, LlmError> {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "tokens:{tenant}",
                &["tokens:", ""],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::complete"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(90_000)
            .per_ms(60000)
            .computed_permits()
            .fallible(),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0
        .request(
            ::ratelimit_runtime::__private::permits(estimate(prompt)),
            &[::ratelimit_runtime::__private::key_part(&tenant)],
        );
    let [__permit_0] = match ::ratelimit_runtime::__private::acquire([__request_0]).await
    {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => {
            return ::ratelimit_runtime::__private::reject(__rejection);
        }
    };
    let __result: Result<Answer, LlmError> = async move {
        if let ::core::option::Option::Some(__result) = ::core::option::Option::None::<
            Result<Answer, LlmError>,
        > {
            return __result;
        }
        { model().complete(prompt).await }
    }
        .await;
    let __used_0 = ::ratelimit_runtime::__private::refund_if(
            &__result,
            LlmError::is_ours,
        )
        .or_else(|| ::ratelimit_runtime::__private::actual(
            &__result,
            |answer| answer.as_ref().ok().map(|answer| answer.tokens),
        ));
    ::ratelimit_runtime::__private::settle_later(__permit_0, __used_0);
    __result
}
