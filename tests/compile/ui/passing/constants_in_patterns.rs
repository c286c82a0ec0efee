#![deny(warnings)]

use ratelimit_runtime::rate_limit;

const FREE: u8 = 0;

enum Day {
    Today,
    Tomorrow,
}
use Day::*;

#[rate_limit(key = "quote:{item}", rate = 2, per = "1s", refund_on = "err")]
async fn quote(
    (FREE | 1..=255): u8,
    (Ok((item, Today)) | Ok((item, Tomorrow)) | Err(item)): Result<(u32, Day), u32>,
) -> Result<u32, u32> {
    Ok(item)
}

fn main() {
    drop((quote(1, Err(1)), quote(1, Ok((1, Today))), quote(1, Ok((1, Tomorrow)))));
}
