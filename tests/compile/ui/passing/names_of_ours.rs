#![deny(warnings)]

use ratelimit_runtime::{Rejection, rate_limit};

mod __rt {
    pub(crate) fn price(item: u32) -> u32 {
        item
    }
}

const __LIMIT_0: u32 = 1;

#[rate_limit(key = "quote:{item}", rate = 2, per = "1s", wait = "none")]
async fn quote(item: u32) -> Result<u32, Rejection> {
    Ok(__rt::price(item) + __LIMIT_0)
}

fn main() {
    drop(quote(1));
}
