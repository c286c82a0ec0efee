use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders", rate = 100, per = "1s", refund_if = |orders| orders.is_empty())]
async fn orders() -> impl Iterator<Item = u8> + ExactSizeIterator {
    [1, 2].into_iter()
}

#[rate_limit(key = "carts", rate = 100, per = "1s", actual = |carts| carts.len())]
async fn carts() -> impl Iterator<Item = u8> + ExactSizeIterator {
    [1, 2].into_iter()
}

fn main() {}
