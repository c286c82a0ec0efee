use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "1s", on_drift = "carry", shadow = true, max_waiters = 10)]
async fn search() {}

fn main() {}
