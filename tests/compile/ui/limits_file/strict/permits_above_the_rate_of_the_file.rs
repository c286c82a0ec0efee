use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders:{user_id}", permits = 6)]
async fn orders(user_id: u64) {
    let _ = user_id;
}

fn main() {}
