use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", [(10, "1s"), (1000, "1h")])]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
