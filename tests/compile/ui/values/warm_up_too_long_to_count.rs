use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2000000000, per = "1s", algorithm = "token_bucket", warm_up = "1s")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
