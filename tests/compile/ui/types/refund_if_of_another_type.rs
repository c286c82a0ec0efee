use ratelimit_runtime::{Rejection, rate_limit};

fn is_lost(_: &String) -> bool {
    true
}

#[rate_limit(key = "mail", rate = 9, per = "1s", refund_if = is_lost)]
async fn send() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "letters", rate = 9, per = "1s", refund_if = |result| result.is_ok().then_some(1))]
async fn write() -> Result<(), Rejection> {
    Ok(())
}

fn main() {}
