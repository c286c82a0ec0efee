#![deny(warnings)]

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;

use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "quote:{item}", rate = 2, per = "1s", wait = "none")]
fn quote(item: &str) -> Pin<Box<dyn Future<Output = Result<impl Display, Rejection>> + Send + '_>> {
    Box::pin(async move { Ok(item.len()) })
}

#[rate_limit(key = "find:{item}", rate = 2, per = "1s", wait = "none")]
fn find(item: &str) -> Pin<Box<dyn Future<Output = Result<&str, Rejection>> + Send + '_>> {
    Box::pin(async move { Ok(item) })
}

fn main() {
    drop(quote("a"));
    drop(find("a"));
}
