use ratelimit_runtime::rate_limit;

#[rate_limit(key = "mail", rate = 1000, per = "daily")]
async fn mail() {}

#[rate_limit(key = "search", rate = 1000, per = "secondly")]
async fn search() {}

#[rate_limit(key = "find", rate = 1000, per = "second")]
async fn find() {}

fn main() {}
