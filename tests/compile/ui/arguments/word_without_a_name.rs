use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", true = 2, per = "1s")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
