use ratelimit_runtime::rate_limit;

#[rate_limit(key = "report")]
async fn orders(user_id: u64) {
    let _ = user_id;
}

fn main() {}
