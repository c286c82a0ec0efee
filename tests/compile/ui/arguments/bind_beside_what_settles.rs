use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "mail", rate = 9, per = "1s", refund_on = "err", bind = permit)]
async fn send() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "letters", rate = 9, per = "1s", bind = permit, refund_if = Result::is_err)]
async fn write() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "tokens", rate = 9, per = "1s", bind = tokens, actual = |_| 7_u64)]
async fn complete() -> Result<(), Rejection> {
    Ok(())
}

fn main() {}
