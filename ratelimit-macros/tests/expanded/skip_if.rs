// #[rate_limit(key = "search:{user.id}", rate = 2, per = "1s", skip_if = user.is_admin || query.is_empty())]
// async fn search(user: &User, query: &str) -> Vec<Hit> {
//     index().find(query).await
// }

async fn search(user: &User, query: &str) -> Vec<Hit> {
    static __LIMIT: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
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
        & __LIMIT
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __skip: bool = user.is_admin || query.is_empty();
    if !__skip {
        let __key = __LIMIT.key(&[::ratelimit_runtime::__private::key_part(&user.id)]);
        __LIMIT.admit(__key, 1u32).await;
    }
    { index().find(query).await }
}
