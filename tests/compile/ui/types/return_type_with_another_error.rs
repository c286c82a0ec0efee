use ratelimit_runtime::rate_limit;

struct SearchError;

#[rate_limit(key = "search", rate = 2, per = "1s", wait = "none")]
async fn search(query: &str) -> Result<Vec<usize>, SearchError> {
    Ok(vec![query.len()])
}

fn main() {}
