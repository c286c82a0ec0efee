use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "mail", rate = 9, per = "1s", refund_on = "err", refund_if = Result::is_err)]
async fn send() -> Result<(), Rejection> {
    Ok(())
}

fn main() {}
