use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search:{usr_id}:{tenent}", rate = 0, per = "1s")]
async fn search(user_id: u64, tenant: u64) -> u64 {
    user_id + tenant
}

fn main() {}
