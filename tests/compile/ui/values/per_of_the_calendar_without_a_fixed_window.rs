use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "day")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
