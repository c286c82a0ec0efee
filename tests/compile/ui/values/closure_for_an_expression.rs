use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "a", rate = 2, per = "1s", skip_if = |query: &str| query.is_empty())]
async fn a(query: &str) {}

#[rate_limit(key = "b", rate = 2, per = "1s", permits = |query| query.len())]
async fn b(query: &str) -> Result<(), Rejection> {
    Ok(())
}

fn main() {}
