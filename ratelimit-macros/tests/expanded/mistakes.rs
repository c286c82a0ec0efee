// #[rate_limit(key = "quote", rate = 0, per = "1s", colour = 3)]
// async fn quote() -> Price {
//     price().await
// }

::core::compile_error! {
    "unknown argument `colour`; expected `key`, `rate`, `per`, `time_zone`, `limits`, `mode`, `algorithm`, `burst`, `warm_up`, `wait`, `on_store_error`, `refund_on`, `permits`, `refund_if`, `actual`, `bind`, `fallback`, `skip_if` or `crate`"
}
::core::compile_error! {
    "`rate` is 0, which rejects every call; write a number from 1 to 2147483647"
}
async fn quote() -> Price {
    price().await
}
