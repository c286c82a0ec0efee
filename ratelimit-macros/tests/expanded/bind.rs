// #[rate_limit(key = "tokens", rate = 90_000, per = "1m", bind = permit)]
// async fn complete(prompt: &str) -> Answer {
//     let answer = model().complete(prompt).await;
//     permit.record(answer.tokens);
//     answer
// }

async fn complete(prompt: &str) -> Answer {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
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
            .per_ms(60000),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0.request(1, &[]);
    let [permit] = ::ratelimit_runtime::__private::admit([__request_0]).await;
    {
        let answer = model().complete(prompt).await;
        permit.record(answer.tokens);
        answer
    }
}
