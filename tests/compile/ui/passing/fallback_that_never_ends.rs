#![deny(warnings)]
#![forbid(unreachable_code)]

use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "quote", rate = 2, per = "1s", wait = "none", fallback = abort)]
async fn quote() -> u32 {
    1
}

#[rate_limit(key = "item", rate = 2, per = "1s", fallback = |rejection| abort(rejection), wait = "none", refund_on = "err")]
async fn item() -> Result<u32, u32> {
    Ok(1)
}

async fn abort(rejection: Rejection) -> ! {
    panic!("{rejection}")
}

fn main() {
    drop((quote(), item()));
}
