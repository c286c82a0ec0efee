#![deny(unused)]

use ratelimit_runtime::rate_limit;

#[rate_limit(
    key = "search:{user}",
    rate = 0,
    per = "1s",
    permits = query.len(),
    skip_if = trusted,
    bind = permit
)]
async fn search(user: u64, query: &str, trusted: bool) {
    if let Some(permit) = permit {
        permit.give_back().await;
    }
}

#[rate_limit(key = "find:{user}", rate = 0, per = "1s", bind = permit)]
async fn find(user: u64) {
    permit.give_back().await;
}

fn main() {}
