use ratelimit_runtime::rate_limit;

#[rate_limit]
async fn search() {}

fn main() {}
