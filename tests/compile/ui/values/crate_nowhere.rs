use ratelimit_runtime::{limiter, rate_limit};

#[rate_limit(key = "search:{query}", rate = 2, per = "1s", wait = "none", fallback = none, crate = nowhere)]
async fn search(query: &str) -> usize {
    query.len()
}

fn none(_: ratelimit_runtime::Rejection) -> usize {
    0
}

fn main() {
    let _ = limiter!("search:{query}", query = "a", crate = crate::nowhere);
}
