use ratelimit_runtime::rate_limit;

#[rate_limit(key = "orders", rate = 2, per = "1s")]
#[rate_limit = "everyone"]
#[rate_limit = "5/s"]
async fn orders() {}

fn main() {}
