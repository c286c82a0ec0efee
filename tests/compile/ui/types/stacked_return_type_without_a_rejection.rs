use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders:{user_id}", rate = 100, per = "1s")]
#[rate_limit(key = "orders", rate = 100, per = "1s", wait = "none")]
async fn orders(user_id: u64) -> u64 {
    user_id
}

fn main() {}
