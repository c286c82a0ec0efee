use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "search", rate = 2, per = "1s", mode = "per_process", refund_on = "error")]
async fn search() -> Result<(), Rejection> {
    Ok(())
}

fn main() {}
