use ratelimit_runtime::rate_limit;

const RATE: u32 = 2;

#[rate_limit(key = "search", rate = RATE, per = "1s", permits = 4_000_000_000)]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
