use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 0, per = "1", modes = "overall")]
fn search(query: &str) -> usize {
    query.len()
}

fn main() {}
