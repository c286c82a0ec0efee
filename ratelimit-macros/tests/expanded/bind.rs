// #[rate_limit(key = "tokens", rate = 90_000, per = "1m", bind = permit)]
// async fn complete(prompt: &str) -> Answer {
//     let answer = model().complete(prompt).await;
//     permit.record(answer.tokens);
//     answer
// }

async fn complete(prompt: &str) -> Answer {
    use ::ratelimit_runtime::__private as __rt;
    static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "tokens",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
            "::complete"
        ),
        rate: 90_000,
        per_ms: 60000,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_0.annotation
    }
    const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
        "RATELIMIT_LIMITS"
    );
    let __request_0 = __LIMIT_0.request(1, &[]);
    let [permit] = __rt::admit([__request_0]).await;
    {
        let answer = model().complete(prompt).await;
        permit.record(answer.tokens);
        answer
    }
}
