use ratelimit_runtime::rate_limit;

const RATE: u64 = 2;

#[rate_limit(key = "search", rate = RATE, per = "1s")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
