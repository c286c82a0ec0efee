// limiter!("quote")

fn handle() -> Limiter {
    {
        static __LIMIT: ::ratelimit_runtime::__private::CallSite = ::ratelimit_runtime::__private::CallSite::new(
            ::ratelimit_runtime::__private::Annotation::new(
                    "quote",
                    &["quote"],
                    ::ratelimit_runtime::__private::Location::new(
                        ::core::module_path!(),
                        ::core::file!(),
                        ::core::line!(),
                    ),
                )
                .handle(),
        );
        ::ratelimit_runtime::__private::submit! {
            & __LIMIT
        }
        const _: ::core::option::Option<&str> = ::core::option_env!("RATELIMIT_LIMITS");
        __LIMIT.limiter(&[])
    }
}
