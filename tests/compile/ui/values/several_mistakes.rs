use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search:{", rate = -1, per = "1w", wait = "none", fallback = 3, skip_if =)]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
