use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders:{user_id}", rate = 2, per = "1s", overrides = [("orders:42", 9)])]
async fn place_order(user_id: u64) {}

fn main() {}
