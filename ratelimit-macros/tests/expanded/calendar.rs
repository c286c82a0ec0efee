// #[rate_limit(key = "mail", rate = 1000, per = "day", time_zone = "Europe/Vienna", algorithm = "fixed_window")]
// async fn mail(letter: Letter) -> Receipt {
//     post.send(letter).await
// }

async fn mail(letter: Letter) -> Receipt {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "mail",
                &["mail"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::mail"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(1000)
            .unit(::ratelimit_runtime::__private::CalendarUnit::Day)
            .time_zone("Europe/Vienna")
            .algorithm(::ratelimit_runtime::__private::Algorithm::FixedWindow),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0.request(1, &[]);
    let () = ::ratelimit_runtime::__private::admit([__request_0]).await;
    { post.send(letter).await }
}
