use ratelimit_runtime::rate_limit;

use ratelimit_runtime::Rejection;

fn nothing(_: Rejection) {}

#[rate_limit(key = "search", rate = 2, per = "1s", wait = "forever", fallback = nothing)]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
