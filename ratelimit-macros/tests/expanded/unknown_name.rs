// #[rate_limit(key = "orders:{usr_id}", rate = 2, per = "1s")]
// async fn place(&self, user_id: u64) -> Receipt {
//     order(user_id).await
// }

async fn place(&self, user_id: u64) -> Receipt {
    #[allow(unused_variables)]
    const _: () = {
        let _ = |user_id: &::core::primitive::str| {
            let _ = ::core::format_args!("orders:{usr_id}");
        };
        ::core::panic!(
            "{}", "`{usr_id}` is not a parameter of `place`; did you mean `user_id`?"
        )
    };
    let _ = &user_id;
    order(user_id).await
}
