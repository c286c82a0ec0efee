use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search:{query?}", rate = 2, per = "1s")]
async fn search(query: u64) {
    let _ = query;
}

fn main() {}
