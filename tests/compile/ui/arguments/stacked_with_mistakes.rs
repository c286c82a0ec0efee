use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders:{usr_id}", rate = 0, per = "1s")]
#[rate_limit(key = "everyone", rate = 100, per = "1sec", colour = 3)]
#[ratelimit_runtime::rate_limit(rate = 100, per = "1s")]
#[rate_limit]
async fn place_order(user_id: u64) {
    let _ = user_id;
}

fn main() {
    // The function is still there.
    let _ = place_order(1);
}
