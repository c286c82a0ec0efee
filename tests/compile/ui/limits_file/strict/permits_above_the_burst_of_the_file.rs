use ratelimit_runtime::rate_limit;

#[rate_limit(key = "bucket", rate = 9, per = "1s", permits = 4)]
async fn bucket() {}

fn main() {}
