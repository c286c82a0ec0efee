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
    static __LIMIT_0: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
        ::ratelimit_runtime::__private::Annotation::new(
                "{{shop}}:{order.tenant.0}:{self.name}:{user?}:{b}",
                &["{shop}:", ":", ":", ":", ""],
                ::ratelimit_runtime::__private::Location::new(
                    ::core::concat!(::core::module_path!(), "::place"),
                    ::core::file!(),
                    ::core::line!(),
                ),
            )
            .rate(limits::ORDERS)
            .per_ms(5400000),
    );
    ::ratelimit_runtime::__private::submit! {
        & __LIMIT_0
    }
    const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
    let __request_0 = __LIMIT_0
        .request(
            1,
            &[
                ::ratelimit_runtime::__private::key_part(&order.tenant.0),
                ::ratelimit_runtime::__private::key_part(&self.name),
                ::ratelimit_runtime::__private::key_part_or_absent(&user),
                ::ratelimit_runtime::__private::key_part(&b),
            ],
        );
    let () = ::ratelimit_runtime::__private::admit([__request_0]).await;
    { self.ledger.append(order).await }
}
