use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "1s")]
fn search(query: &str) -> usize {
    query.len()
}

fn main() {}
