use ratelimit_runtime::rate_limit;

#[rate_limit(key = "ratelimit:~members", rate = 5, per = "1s")]
async fn search() {}

fn main() {}
