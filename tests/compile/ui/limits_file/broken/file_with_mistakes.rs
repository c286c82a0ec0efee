use ratelimit_runtime::{limiter, rate_limit};

#[rate_limit(key = "orders:{user_id}")]
async fn orders(user_id: u64) {
    let _ = user_id;
}

// The mistakes of the file are reported once.
#[rate_limit(key = "quote")]
async fn quote() {}

#[rate_limit(key = "search")]
#[rate_limit(key = "quote")]
async fn search() {}

// Its own are reported at each annotation.
#[rate_limit(key = "find", rate = 0)]
async fn find() {}

fn main() {
    let _ = limiter!("quote");
}
