use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2000000000, per = "30d", algorithm = "leaky_bucket")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
