use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "orders", rate = 100, per = "1s", refund_on = "err")]
async fn orders() -> Result<impl Iterator<Item = u8>, Rejection> {
    Ok([1, 2].into_iter())
}

fn main() {}
