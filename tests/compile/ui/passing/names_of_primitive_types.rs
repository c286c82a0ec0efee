#![allow(dead_code, non_camel_case_types)]

use ratelimit_runtime::{Rejection, limiter, rate_limit};

struct bool;
struct str;
struct u8;
struct u32;
struct u64;
struct usize;

#[rate_limit(key = "search:{query}", rate = 2, per = "1s", wait = "none", permits = query.len(), skip_if = query.is_empty(), refund_on = "err")]
async fn search(query: String) -> Result<String, Rejection> {
    Ok(query)
}

#[rate_limit(key = "find", limits = [(2, "1s"), (20, "1m")], actual = String::len, algorithm = "fixed_window")]
async fn find() -> String {
    String::new()
}

fn main() {
    let _ = (search(String::new()), find());
    let _ = || limiter!("search:{query}", query = "a");
}
