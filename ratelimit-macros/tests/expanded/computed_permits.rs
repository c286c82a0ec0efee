// #[rate_limit(key = "import:{tenant}", rate = 1000, per = "1m", permits = rows.len())]
// async fn import(tenant: Uuid, rows: Vec<Row>) -> Result<(), ImportError> {
//     store(tenant, rows).await
// }

async fn import(tenant: Uuid, rows: Vec<Row>) -> Result<(), ImportError> {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "import:{tenant}",
                &["import:", ""],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::import"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(1000)
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
            ::ratelimit_runtime::__private::permits(rows.len()),
            &[::ratelimit_runtime::__private::key_part(&tenant)],
        );
    let () = match ::ratelimit_runtime::__private::acquire([__request_0]).await {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((_, __rejection)) => {
            return ::ratelimit_runtime::__private::reject(__rejection);
        }
    };
    { store(tenant, rows).await }
}
