use ratelimit_runtime::rate_limit;

#[rate_limit(key = "order", rate = 2, per = "1s")]
async fn order(user_id: u64) {}

fn main() {}
