use ratelimit_runtime::rate_limit;

#[rate_limit(
    kei = "search",
    rate = 2,
    rate = 3,
    per = "1 s",
    mode = "overal",
    permits = 0,
    on_store_error = "fail",
)]
async fn search(query: &str) {
    let _ = query;
}

// The function is there all the same, so this is no mistake.
async fn caller() {
    search("caret").await;
}

fn main() {}
