use ratelimit_runtime::rate_limit;

#[rate_limit(key = "payments", rate = 2, per = "1s")]
async fn orders(user_id: u64) {
    let _ = user_id;
}

fn main() {}
