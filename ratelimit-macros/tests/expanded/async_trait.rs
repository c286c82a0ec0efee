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
            static __LIMIT: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
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
                & __LIMIT
            }
            const _: ::core::option::Option<&str> = ::core::option_env!(
                "RATELIMIT_LIMITS"
            );
            let __permits = ::ratelimit_runtime::__private::permits(__self.cost(&order));
            let __key = __LIMIT
                .key(
                    &[
                        ::ratelimit_runtime::__private::key_part(&__self.name),
                        ::ratelimit_runtime::__private::key_part(&tenant),
                    ],
                );
            if let ::core::result::Result::Err(__rejection) = __LIMIT
                .acquire(__key, __permits)
                .await
            {
                return ::ratelimit_runtime::__private::reject(__rejection);
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
