// #[rate_limit(key = "mail", rate = 1000, per = "day", time_zone = "Europe/Vienna", algorithm = "fixed_window")]
// async fn mail(letter: Letter) -> Receipt {
//     post.send(letter).await
// }

async fn mail(letter: Letter) -> Receipt {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "mail",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
                "::mail"
            ),
            rate: 1000,
            rare: __rt::Some(
                &__rt::Rare {
                    unit: __rt::Some(__rt::CalendarUnit::Day),
                    time_zone: __rt::Some("Europe/Vienna"),
                    ..__rt::Rare::NONE
                },
            ),
            algorithm: __rt::Some(__rt::Algorithm::FixedWindow),
            ..__rt::Annotation::NONE
        });
        __rt::submit! {
            & __LIMIT_0.annotation
        }
        const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
            "RATELIMIT_LIMITS"
        );
        let __request_0 = __LIMIT_0.acquire(1, &[]);
        let _ = __request_0.await;
    }
    {
        post.send(letter).await
    }
}
