// #[rate_limit(key = "{{shop}}:{order.tenant.0}:{self.name}:{user?}:{b}", rate = limits::ORDERS, per = "1h30m")]
// async fn place<'a, T, const N: usize>(&'a self, order: Order, user: Option<u64>, (_, b): (T, u8)) -> Receipt
// where
//     T: Send,
// {
//     self.ledger.append(order).await
// }

async fn place<'a, T, const N: usize>(
    &'a self,
    order: Order,
    user: Option<u64>,
    (_, b): (T, u8),
) -> Receipt
where
    T: Send,
{
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT_0: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "{{shop}}:{order.tenant.0}:{self.name}:{user?}:{b}",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!(),
                "::place"
            ),
            rate: __rt::rate(limits::ORDERS),
            per_ms: 5400000,
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
                1,
                &[
                    __rt::key_part(&order.tenant.0),
                    __rt::key_part(&self.name),
                    __rt::key_part_or_absent(&user),
                    __rt::key_part(&b),
                ],
            );
        let _ = __request_0.await;
    }
    {
        self.ledger.append(order).await
    }
}
