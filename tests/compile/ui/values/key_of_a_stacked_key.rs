use ratelimit_runtime::rate_limit;

#[rate_limit(key = "{{shop}}:{user_id}", rate = 2, per = "1s")]
#[rate_limit(key = "{{shop}}:all", rate = 100, per = "1s")]
async fn orders(user_id: u64) -> u64 {
    user_id
}

fn main() {}
