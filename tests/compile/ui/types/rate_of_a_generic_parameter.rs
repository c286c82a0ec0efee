use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = RATE, per = "1s")]
async fn search<const RATE: u32>(query: &str) {
    let _ = query;
}

fn main() {}
