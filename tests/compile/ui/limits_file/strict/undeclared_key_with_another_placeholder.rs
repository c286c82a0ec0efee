use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders:{customer}", rate = 2, per = "1s")]
async fn place_order(customer: u64) {}

fn main() {}
