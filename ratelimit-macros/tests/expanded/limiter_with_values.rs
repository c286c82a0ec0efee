// limiter!("orders:{user_id}" , user_id = session . user ())

fn handle() -> Limiter {
    {
        use ::ratelimit_runtime::__private as __rt;
        static __LIMIT: __rt::CallSite = __rt::CallSite::new(__rt::Annotation {
            key: "orders:{user_id}",
            at: ::core::concat!(
                ::core::file!(), ":", ::core::line!(), " ", ::core::module_path!()
            ),
            declared: __rt::Some(&__rt::FromFile::Rate(5, 60000)),
            judges: true,
            cost: __rt::Cost::OfHandle,
            fallible: true,
            ..__rt::Annotation::NONE
        });
        __rt::submit! {
            & __LIMIT.annotation
        }
        __rt::submit! {
            __rt::CompiledWith("ratelimit.yaml")
        }
        const _: &[::core::primitive::u8] = ::core::include_bytes!(
            "/shop/ratelimit.yaml"
        );
        const _: ::core::option::Option<&::core::primitive::str> = ::core::option_env!(
            "RATELIMIT_LIMITS"
        );
        match (&(session.user()),) {
            (__part0,) => __LIMIT.limiter(&[__rt::key_part(__part0)]),
        }
    }
}
