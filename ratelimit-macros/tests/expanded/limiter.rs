// limiter!("quote")

fn handle() -> Limiter {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "quote",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!()
            ),
            judges: true,
            cost: __rt::Cost::OfHandle,
            fallible: true,
            ..__rt::Annotation::NONE
        });
        __rt::submit! {
            & __LIMIT.annotation
        }
        const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
            "RATELIMIT_LIMITS"
        );
        __LIMIT.limiter(&[])
    }
}
