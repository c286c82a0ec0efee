use std::future::Future;
use std::pin::Pin;

use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "search", rate = 2, per = "1s", wait = "none")]
fn search(query: &str) -> Pin<Box<dyn Future<Output = Result<usize, Rejection>> + Send + '_>> {
    Box::pin(async move { query.len() })
}

#[rate_limit(key = "find", rate = 2, per = "1s", wait = "none")]
fn find(query: &str) -> Pin<Box<dyn Future<Output = Result<usize, Rejection>> + Send + '_>> {
    Box::pin(async move {
        query.len();
    })
}

fn main() {}
