use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "search", rate = 2, per = "1s", permits = query.trim())]
async fn search(query: &str) -> Result<(), Rejection> {
    let _ = query;
    Ok(())
}

fn main() {}
