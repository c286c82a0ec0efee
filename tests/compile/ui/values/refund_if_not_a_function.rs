use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "mail", rate = 9, per = "1s", refund_if = "err")]
async fn send() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "tokens", rate = 9, per = "1s", actual = 7)]
async fn complete() -> Result<(), Rejection> {
    Ok(())
}

fn main() {}
