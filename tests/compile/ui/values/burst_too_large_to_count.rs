use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "30d", algorithm = "token_bucket", burst = 2000000000)]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
