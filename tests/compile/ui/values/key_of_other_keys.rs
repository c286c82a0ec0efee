use ratelimit_runtime::{limiter, rate_limit};

#[rate_limit(key = "a:{user_id}", rate = 2, per = "1m")]
async fn of_a_user(user_id: u64) -> u64 {
    user_id
}

#[rate_limit(key = "a:{other}", rate = 50, per = "1m")]
async fn of_another(other: u64) -> u64 {
    other
}

#[rate_limit(key = "a:5", rate = 7, per = "1h")]
async fn of_one() {}

// The same template may be written twice.
#[rate_limit(key = "a:{user_id}", rate = 2, per = "1m")]
async fn of_a_user_again(user_id: u64) -> u64 {
    user_id
}

fn main() {
    let _ = limiter!("a:7");
    let _ = limiter!("a:{user_id}:{tenant}", user_id = 7, tenant = 1);
}
