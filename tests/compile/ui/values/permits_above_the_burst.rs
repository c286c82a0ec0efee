use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 9, per = "1s", algorithm = "token_bucket", burst = 2, permits = 3)]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
