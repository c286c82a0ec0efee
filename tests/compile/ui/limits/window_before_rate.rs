use ratelimit_runtime::rate_limit;

#[rate_limit(key = "quote", limits = [("1s", 10), (1000, "1h")])]
async fn quote() {}

fn main() {}
