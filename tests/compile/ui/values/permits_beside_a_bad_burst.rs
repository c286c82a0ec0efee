use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 3, per = "1s", algorithm = "token_bucket", burst = "5 permits", permits = 5)]
async fn search(query: &str) {
    let _ = query;
}

#[rate_limit(key = "find", rate = 3, per = "1s", algorithm = "tokenbucket", burst = 5, permits = 5)]
async fn find(query: &str) {
    let _ = query;
}

fn main() {}
