use ratelimit_runtime::{limiter, rate_limit};

#[rate_limit(key = "orders:{user_id}", rate = 2, per = "1s")]
async fn orders(user_id: u64) {
    let _ = user_id;
}

// It is missed once.
#[rate_limit(key = "quote")]
async fn quote() {}

fn main() {
    let _ = limiter!("quote");
}
