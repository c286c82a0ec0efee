use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "search", rate = 2, per = 5m, wait = 250ms)]
async fn search(query: &str) -> Result<(), Rejection> {
    Ok(())
}

fn main() {}
