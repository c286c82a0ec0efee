// limiter!("orders:{user_id}" , user_id = session . user ())

fn handle() -> Limiter {
    {
        static __LIMIT: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
            ::ratelimit_runtime::__private::Annotation::new(
                    "orders:{user_id}",
                    &["orders:", ""],
                    ::ratelimit_runtime::__private::Location::new(
                        ::core::module_path!(),
                        ::core::file!(),
                        ::core::line!(),
                    ),
                )
                .declared(5, 60000)
                .handle(),
        );
        ::ratelimit_runtime::__private::submit! {
            & __LIMIT
        }
        const _: &[u8] = ::core::include_bytes!("/shop/ratelimit.yaml");
        const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
        match (&session.user(),) {
            (__part0,) => {
                __LIMIT.limiter(&[::ratelimit_runtime::__private::key_part(__part0)])
            }
        }
    }
}
