use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", limit = 5, window = "1s")]
async fn search() {}

#[rate_limit(key = "find", requests = 5, duration = "1s", max_wait = "2s")]
async fn find() {}

#[rate_limit(key = "list", quota = "5/s", on_error = "allow")]
async fn list() {}

#[rate_limit(key = "show", max = 5, per = "1s")]
async fn show() {}

fn main() {}
