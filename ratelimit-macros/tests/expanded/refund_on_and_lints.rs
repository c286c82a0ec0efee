// #[rate_limit(key = "quote", rate = 2, per = "1s", refund_on = "err")]
// async fn quote(
//     #[cfg(unix)] #[allow(unused_variables)] item: &str,
//     #[expect(unused_variables)] shop: &str,
//     #[cfg_attr(unix, deny(unused_variables))] day: u8,
//     _old: u8,
// ) -> Result<Price, ShopError> {
//     Ok(price(day).await.expect("the shop is open"))
// }

async fn quote(
    #[cfg(unix)]
    #[allow(unused_variables)]
    item: &str,
    #[expect(unused_variables)]
    shop: &str,
    #[cfg_attr(unix, deny(unused_variables))]
    day: u8,
    _old: u8,
) -> Result<Price, ShopError> {
    use ::ratelimit_runtime::__private as __rt;
    static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
        key: "quote",
        at: ::core::concat!(
            ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(), "::quote"
        ),
        rate: 2,
        per_ms: 1000,
        refund_on: __rt::Some(__rt::RefundOn::Err),
        judges: true,
        ..__rt::Annotation::NONE
    });
    __rt::submit! {
        & __LIMIT_0.annotation
    }
    const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
        "RATELIMIT_LIMITS"
    );
    let __request_0 = __LIMIT_0.request(1, &[]);
    let [__permit_0] = __rt::admit([__request_0]).await;
    let __result: Result<Price, ShopError> = async move {
        if let ::core::option::Option::Some(__result) = ::core::option::Option::None::<
            Result<Price, ShopError>,
        > {
            return __result;
        }
        #[allow(clippy::shadow_same)]
        #[cfg(unix)]
        #[allow(unused_variables)]
        let item = item;
        #[allow(clippy::shadow_same)]
        #[cfg_attr(unix, deny(unused_variables))]
        let day = day;
        #[allow(
            clippy::shadow_same,
            clippy::no_effect_underscore_binding,
            clippy::used_underscore_binding
        )]
        let _old = _old;
        {
            Ok(price(day).await.expect("the shop is open"))
        }
    }
        .await;
    let __used_0 = __rt::refund_on(&__permit_0, &__result);
    __rt::settle_later(__permit_0, __used_0);
    return __result;
}
