// #[rate_limit(key = "quote", rate = 2, per = "1s", refund_on = "err")]
// async fn quote(&self, item: &str) -> Result<Price, ShopError> {
//     Ok(self.prices().await?.of(item))
// }

async fn quote(&self, item: &str) -> Result<Price, ShopError> {
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "quote",
                &["quote"],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::quote"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(2)
            .per_ms(1000)
            .refund_on(::ratelimit_runtime::__private::RefundOn::Err),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0.request(1, &[]);
    let [__permit_0] = ::ratelimit_runtime::__private::admit([__request_0]).await;
    let __result: Result<Price, ShopError> = async move {
        if let ::core::option::Option::Some(__result) = ::core::option::Option::None::<
            Result<Price, ShopError>,
        > {
            return __result;
        }
        { Ok(self.prices().await?.of(item)) }
    }
        .await;
    let __used_0 = ::ratelimit_runtime::__private::refund_on(&__permit_0, &__result);
    ::ratelimit_runtime::__private::settle_later(__permit_0, __used_0);
    __result
}
