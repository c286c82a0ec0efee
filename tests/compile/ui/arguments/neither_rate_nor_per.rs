use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
