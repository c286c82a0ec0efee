// limiter!("quote")

fn handle() -> Limiter {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT: __rt::CallSite = __rt::CallSite::new(
            __rt::Annotation::new(
                    "quote",
                    __rt::Location::new(
                        ::core::module_path!(),
                        ::core::file!(),
                        ::core::line!(),
                    ),
                )
                .handle(),
        );
        __rt::submit! {
            & __LIMIT
        }
        const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
            "RATELIMIT_LIMITS"
        );
        __LIMIT.limiter(&[])
    }
}
