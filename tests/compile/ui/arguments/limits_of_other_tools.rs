use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rps = 5, per = "1s", burst_size = 10)]
async fn search() {}

#[rate_limit(key = "find", rate = "10r/s")]
async fn find() {}

#[rate_limit(key = "list", limit = "5/minute")]
async fn list() {}

#[rate_limit(key = "show", rate = 1,000, per = "1s")]
async fn show() {}

#[rate_limit(key = "scan", rate = 5, per = "1s", algorithm = "gcra", mode = "global", on_store_error = "fail_open")]
async fn scan() {}

fn main() {}
