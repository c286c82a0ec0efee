use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = "5/s")]
async fn search() {}

#[rate_limit(key = "find", rate = "100 per 1m", per = "1m")]
async fn find() {}

#[rate_limit(key = "list", rate = "many", per = "1s")]
async fn list() {}

#[rate_limit(key = "seek", rate = 5 / s)]
async fn seek() {}

fn main() {}
