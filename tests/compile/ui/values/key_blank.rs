use ratelimit_runtime::rate_limit;

#[rate_limit(key = " ", rate = 2, per = "1s")]
async fn search() {}

fn main() {}
