use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "week", algorithm = "token_bucket")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
