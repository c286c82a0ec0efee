use ratelimit_runtime::rate_limit;

use std::future::Future;
use std::pin::Pin;

#[rate_limit(key = "search", rate = 2, per = "1s")]
fn search(query: &str) -> Pin<Box<dyn Future<Output = usize> + Send + '_>> {
    println!("before any permit");
    Box::pin(async move { query.len() })
}

fn main() {}
