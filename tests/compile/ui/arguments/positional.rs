use ratelimit_runtime::rate_limit;

#[rate_limit("search", 5, "1s")]
async fn search() {}

#[rate_limit("5/s", key = "find")]
async fn find() {}

#[rate_limit("list", rate = 5, "1m", 'x')]
async fn list() {}

fn main() {}
