use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders:{user_id}", rate = 100, per = "1s")]
#[rate_limit(key = "orders", rate = 100, per = "1s")]
#[rate_limit(key = "orders:{user_id}", rate = 1000, per = "1h")]
async fn place_order(user_id: u64) {
    let _ = user_id;
}

fn main() {}
