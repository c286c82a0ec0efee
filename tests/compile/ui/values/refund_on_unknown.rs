use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "orders", rate = 100, per = "1s", refund_on = "error")]
async fn orders() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "carts", rate = 100, per = "1s", refund_on = Err)]
async fn carts() -> Result<(), Rejection> {
    Ok(())
}

fn main() {}
