use ratelimit_runtime::{Rejection, limiter, rate_limit};

#[rate_limit(key = "orders:{user_id}")]
async fn orders(user_id: u64) {
    let _ = user_id;
}

// The file makes this call one that can be rejected.
#[rate_limit(key = "quote", fallback = nothing)]
async fn quote() {}

fn nothing(_: Rejection) {}

fn main() {
    let _ = (orders(42), quote());
    let _ = || limiter!("orders:{user_id}", user_id = 42);
}
