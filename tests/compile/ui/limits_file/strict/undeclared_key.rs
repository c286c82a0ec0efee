use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders:{usr_id}", rate = 2, per = "1s")]
async fn orders(usr_id: u64) {
    let _ = usr_id;
}

fn main() {}
