// #[rate_limit(key = "import:{tenant}", rate = 1000, per = "1m", permits = rows.len())]
// async fn import(tenant: Uuid, rows: Vec<Row>) -> Result<(), ImportError> {
//     store(tenant, rows).await
// }

async fn import(tenant: Uuid, rows: Vec<Row>) -> Result<(), ImportError> {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "import:{tenant}",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
                "::import"
            ),
            rate: 1000,
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
            .acquire(__rt::permits(rows.len()), &[__rt::key_part(&tenant)]);
        if let __rt::Some(__rejection) = __request_0.await {
            return __rt::reject(__rejection);
        }
    }
    {
        store(tenant, rows).await
    }
}
