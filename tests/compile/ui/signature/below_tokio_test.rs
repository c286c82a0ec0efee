use ratelimit_runtime::rate_limit;

#[tokio::test]
#[rate_limit(key = "search", rate = 2, per = "1s")]
async fn search() {}

#[tokio::main]
#[rate_limit(key = "main", rate = 2, per = "1s")]
async fn main() {}
