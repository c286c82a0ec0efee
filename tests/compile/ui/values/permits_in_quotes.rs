use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "search", rate = 2, per = "1s", permits = "words.len()")]
async fn search(words: &[&str]) -> Result<(), Rejection> {
    Ok(())
}

fn main() {}
