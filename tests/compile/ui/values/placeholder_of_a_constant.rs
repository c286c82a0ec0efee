use ratelimit_runtime::rate_limit;

const TENANT: &str = "acme";

#[rate_limit(key = "search:{TENANT}", rate = 2, per = "1s")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
