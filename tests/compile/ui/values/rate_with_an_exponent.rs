use ratelimit_runtime::rate_limit;

#[rate_limit(key = "a", rate = 1e3, per = "1s")]
async fn a() {}

#[rate_limit(key = "b", rate = 5.0, per = "1s")]
async fn b() {}

fn main() {}
