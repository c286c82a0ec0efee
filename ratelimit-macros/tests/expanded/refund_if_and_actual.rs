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
    use ::ratelimit_runtime::__private as __rt;
    static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "tokens:{tenant}",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
            "::complete"
        ),
        rate: 90_000,
        per_ms: 60000,
        cost: __rt::Cost::Computed,
        fallible: true,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_0.annotation
    }
    const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
        "RATELIMIT_LIMITS"
    );
    let __request_0 = __LIMIT_0
        .request(__rt::permits(estimate(prompt)), &[__rt::key_part(&tenant)]);
    let [__permit_0] = match __rt::acquire([__request_0]).await {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => return __rt::reject(__rejection),
    };
    let __result: Result<Answer, LlmError> = async move {
        if let ::core::option::Option::Some(__result) = ::core::option::Option::None::<
            Result<Answer, LlmError>,
        > {
            return __result;
        }
        #[allow(clippy::shadow_same)]
        let tenant = tenant;
        let _ = &tenant;
        #[allow(clippy::shadow_same)]
        let prompt = prompt;
        let _ = &prompt;
        {
            model().complete(prompt).await
        }
    }
        .await;
    let __used_0 = __rt::refund_if(&__result, LlmError::is_ours)
        .or_else(|| __rt::actual(
            &__result,
            |answer| answer.as_ref().ok().map(|answer| answer.tokens),
        ));
    __rt::settle_later(__permit_0, __used_0);
    return __result;
}
