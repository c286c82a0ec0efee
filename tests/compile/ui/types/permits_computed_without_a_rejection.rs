use ratelimit_runtime::rate_limit;

// It waits forever, but can cost more than the limiter ever has.
#[rate_limit(key = "search", rate = 2, per = "1s", permits = query.len())]
async fn search(query: &str) -> usize {
    query.len()
}

fn main() {}
