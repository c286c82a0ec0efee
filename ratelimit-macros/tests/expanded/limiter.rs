// limiter!("quote")

fn handle() -> Limiter {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT: __rt::CallSite = __rt::CallSite::new(
            __rt::Annotation::new(
                    "quote",
                    ::core::concat!(
                        ::core::file!(), ":", ::core::line!(), " ",
                        ::core::module_path!()
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
