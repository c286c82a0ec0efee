use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search:{user?}", rate = 2, per = "1s")]
async fn search(query: Option<u8>, _: u8) {
    let _ = query;
}

fn main() {}
