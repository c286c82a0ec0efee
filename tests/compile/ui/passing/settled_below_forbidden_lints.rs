#![deny(warnings)]
#![forbid(unreachable_code, unused_must_use, unused_mut, unused_variables)]

use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "quote:{item}", rate = 2, per = "1s", permits = cost, wait = "none", refund_on = "err")]
async fn quote(item: &str, cost: u32, mut prices: Vec<u32>) -> Result<Vec<u32>, Rejection> {
    prices.push(1);
    Ok(prices)
}

fn main() {
    drop(quote("item", 1, vec![]));
}
