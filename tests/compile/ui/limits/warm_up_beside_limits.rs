use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", limits = [(2, "1s"), (9, "1m")], algorithm = "token_bucket", warm_up = "4s")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
