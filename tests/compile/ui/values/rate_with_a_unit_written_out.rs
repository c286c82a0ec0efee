use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = "5/minute")]
async fn search() {}

#[rate_limit(key = "find", rate = "5 per second")]
async fn find() {}

fn main() {}
