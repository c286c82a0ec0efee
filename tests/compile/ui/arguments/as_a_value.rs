use ratelimit_runtime::rate_limit;

#[rate_limit = "5/s"]
async fn search() {}

fn main() {}
