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
            {
                use ::ratelimit_runtime::__private as __rt;
                static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
                    key: "orders:{self.name}:{tenant}",
                    at: ::core::concat!(
                        ::core::file!(), ":", ::core::line!(), " ",
                        ::core::module_path!(), "::place"
                    ),
                    rate: 2,
                    per_ms: 1000,
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
                    .acquire(
                        __rt::permits(__self.cost(&order)),
                        &[__rt::key_part(&__self.name), __rt::key_part(&tenant)],
                    );
                if let __rt::Some(__rejection) = __request_0.await {
                    return __rt::reject::<Result<Receipt, ShopError>>(__rejection);
                }
            }
            {
                let __ret: Result<Receipt, ShopError> = {
                    __self.ledger.append(tenant, order).await
                };
                #[allow(unreachable_code)] __ret
            }
        }
    })
}
