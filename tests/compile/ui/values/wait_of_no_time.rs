use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "1s", wait = "0s")]
async fn search() {}

#[rate_limit(key = "find", rate = 2, per = "1s", wait = "0")]
async fn find() {}

fn main() {}
