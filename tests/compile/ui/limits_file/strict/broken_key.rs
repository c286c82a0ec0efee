//! Only the key is wrong: without its specifier it is one that the file declares.

use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders:{user_id:?}")]
async fn orders(user_id: u64) {}

#[rate_limit]
async fn quote() {}

fn main() {}
