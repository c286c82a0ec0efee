use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "1s", wait = "none", fallback = |rejection| rejection.limiter().len())]
async fn search(query: &str) -> String {
    query.to_owned()
}

#[rate_limit(key = "find", rate = 2, per = "1s", wait = "none", fallback = || String::new())]
async fn find(query: &str) -> String {
    query.to_owned()
}

fn main() {}
