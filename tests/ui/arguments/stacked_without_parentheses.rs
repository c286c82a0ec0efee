use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders", rate = 100, per = "1s")]
#[rate_limit = "everyone"]
async fn place_order() {}

fn main() {}
