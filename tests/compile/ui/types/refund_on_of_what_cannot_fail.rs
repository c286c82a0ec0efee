use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders", rate = 100, per = "1s", refund_on = "err")]
async fn orders() -> u32 {
    7
}

#[rate_limit(key = "carts", rate = 100, per = "1s", refund_on = "err")]
async fn carts() {}

fn main() {}
