use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search:{query.get(0)}", rate = 2, per = "1s")]
async fn search(query: &str) -> usize {
    query.len()
}

fn main() {}
