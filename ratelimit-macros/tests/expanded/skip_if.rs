// #[rate_limit(key = "search:{user.id}", rate = 2, per = "1s", skip_if = user.is_admin || query.is_empty())]
// async fn search(user: &User, query: &str) -> Vec<Hit> {
//     index().find(query).await
// }

async fn search(user: &User, query: &str) -> Vec<Hit> {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "search:{user.id}",
                &["search:", ""],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::search"),
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
    let __skip_0: bool = user.is_admin || query.is_empty();
    let __request_0 = if __skip_0 {
        ::ratelimit_runtime::__private::skipped()
    } else {
        __LIMIT_0.request(1, &[::ratelimit_runtime::__private::key_part(&user.id)])
    };
    let () = ::ratelimit_runtime::__private::admit([__request_0]).await;
    { index().find(query).await }
}
