use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, window = "1s", skip = query.is_empty())]
async fn search(query: &str) -> usize {
    query.len()
}

#[rate_limit(name = "find", rate = 2, per = "1s", cost = 3)]
async fn find() {}

fn main() {}
