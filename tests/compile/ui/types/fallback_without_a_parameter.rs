use ratelimit_runtime::rate_limit;

fn nothing() -> usize {
    0
}

#[rate_limit(key = "search", rate = 2, per = "1s", wait = "none", fallback = nothing)]
async fn search(query: &str) -> usize {
    query.len()
}

fn main() {}
