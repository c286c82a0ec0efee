// #[rate_limit(key = "orders:{self.name}:{tenant}", rate = 2, per = "1s", permits = self.cost(&order))]
// fn place<'life0, 'async_trait>(
//     &'life0 self,
//     order: Order,
//     __arg2: (Tenant, u8),
// ) -> ::core::pin::Pin<Box<
//     dyn ::core::future::Future<Output = Result<Receipt, ShopError>> + ::core::marker::Send + 'async_trait
// >>
// where
//     'life0: 'async_trait,
//     Self: 'async_trait,
// {
//     Box::pin(async move {
//         if let ::core::option::Option::Some(__ret) =
//             ::core::option::Option::None::<Result<Receipt, ShopError>>
//         {
//             #[allow(unreachable_code)]
//             return __ret;
//         }
//         let __self = self;
//         let order = order;
//         let (tenant, _) = {
//             let __arg2 = __arg2;
//             __arg2
//         };
//         let __ret: Result<Receipt, ShopError> = { __self.ledger.append(tenant, order).await };
//         #[allow(unreachable_code)]
//         __ret
//     })
// }

fn place<'life0, 'async_trait>(
    &'life0 self,
    order: Order,
    __arg2: (Tenant, u8),
) -> ::core::pin::Pin<
    Box<
        dyn ::core::future::Future<
            Output = Result<Receipt, ShopError>,
        > + ::core::marker::Send + 'async_trait,
    >,
>
where
    'life0: 'async_trait,
    Self: 'async_trait,
{
    Box::pin(async move {
        if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<
            Result<Receipt, ShopError>,
        > {
            #[allow(unreachable_code)] return __ret;
        }
        let __self = self;
        let order = order;
        let (tenant, _) = {
            let __arg2 = __arg2;
            __arg2
        };
        {
            static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
                ::ratelimit_runtime::__private::Annotation::new(
                        "orders:{self.name}:{tenant}",
                        &["orders:", ":", ""],
                        ::ratelimit_runtime::__private::Location::new(
                            ::core::concat!(::core::module_path!(), "::place"),
                            ::core::file!(),
                            ::core::line!(),
                        ),
                    )
                    .rate(2)
                    .per_ms(1000)
                    .computed_permits()
                    .fallible(),
            );
            ::ratelimit_runtime::__private::submit! {
                & __LIMIT_0
            }
            const _: ::core::option::Option<&str> = ::core::option_env!(
                "RATELIMIT_LIMITS"
            );
            let __request_0 = __LIMIT_0
                .request(
                    ::ratelimit_runtime::__private::permits(__self.cost(&order)),
                    &[
                        ::ratelimit_runtime::__private::key_part(&__self.name),
                        ::ratelimit_runtime::__private::key_part(&tenant),
                    ],
                );
            let () = match ::ratelimit_runtime::__private::acquire([__request_0]).await {
                ::core::result::Result::Ok(__permits) => __permits,
                ::core::result::Result::Err((_, __rejection)) => {
                    return ::ratelimit_runtime::__private::reject(__rejection);
                }
            };
            {
                let __ret: Result<Receipt, ShopError> = {
                    __self.ledger.append(tenant, order).await
                };
                #[allow(unreachable_code)] __ret
            }
        }
    })
}
