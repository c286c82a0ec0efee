use ratelimit_runtime::{Rejection, rate_limit};

fn nothing(_: Rejection) -> String {
    String::new()
}

#[rate_limit(key = "search", rate = 2, per = "1s", wait = "none", fallback = nothing)]
async fn search(query: &str) -> usize {
    query.len()
}

fn main() {}
