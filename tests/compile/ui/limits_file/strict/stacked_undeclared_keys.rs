use ratelimit_runtime::rate_limit;

#[rate_limit(key = "no-such:{user_id}")]
#[rate_limit(key = "none-like-it", rate = 100)]
async fn place_order(user_id: u64) {
    let _ = user_id;
}

fn main() {}
