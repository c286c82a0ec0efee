use ratelimit_runtime::rate_limit;

#[allow(non_upper_case_globals)]
static tenant: &str = "acme";

#[rate_limit(key = "search:{tenant}", rate = 2, per = "1s")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
