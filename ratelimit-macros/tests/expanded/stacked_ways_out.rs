// #[rate_limit(key = "user:{user}", rate = 2, per = "1s", wait = "none", skip_if = user == 0)]
// #[rate_limit(key = "everyone", rate = 100, per = "1s")]
// #[ratelimit_runtime::rate_limit(key = "rows", rate = 9, per = "1s", permits = rows.len(), fallback = later)]
// #[inline]
// async fn import(user: u64, rows: Vec<Row>) -> Result<(), ImportError> {
//     store(user, rows).await
// }

#[inline]
async fn import(user: u64, rows: Vec<Row>) -> Result<(), ImportError> {
    use ::ratelimit_runtime::__private as __rt;
    static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "user:{user}",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
            "::import"
        ),
        rate: 2,
        per_ms: 1000,
        wait: __rt::Some(__rt::Wait::None),
        fallible: true,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_0.annotation
    }
    static __LIMIT_1: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "everyone",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
            "::import"
        ),
        rate: 100,
        per_ms: 1000,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_1.annotation
    }
    static __LIMIT_2: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "rows",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
            "::import"
        ),
        rate: 9,
        per_ms: 1000,
        cost: __rt::Cost::Computed,
        fallible: true,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_2.annotation
    }
    const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
        "RATELIMIT_LIMITS"
    );
    let __skip_0: ::core::primitive::bool = user == 0;
    let __request_0 = if __skip_0 {
        __rt::Request::skipped()
    } else {
        __LIMIT_0.request(1, &[__rt::key_part(&user)])
    };
    let __request_1 = __LIMIT_1.request(1, &[]);
    let __request_2 = __LIMIT_2.request(__rt::permits(rows.len()), &[]);
    let [_, _, _] = match __rt::acquire([__request_0, __request_1, __request_2]).await {
        ::core::result::Result::Ok(__permits) => __permits,
        ::core::result::Result::Err((__by, __rejection)) => {
            return match __by {
                0 => __rt::reject(__rejection),
                _ => {
                    use __rt::{
                        GetAnswer as _, ResolveFuture as _, ResolveNever as _,
                        ResolvePlain as _,
                    };
                    let __later = match __rt::answer::<
                        Result<(), ImportError>,
                        _,
                    >(__rejection, later)
                        .resolve()
                    {
                        __rt::Resolved::Now(__plain) => return __plain.get(),
                        __rt::Resolved::Later(__later) => __later,
                    };
                    let __later = ::core::pin::pin!(__later);
                    async { __later.await }.await
                }
            };
        }
    };
    {
        store(user, rows).await
    }
}
