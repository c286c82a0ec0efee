use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "1s", mode = overall, wait = none)]
async fn search() -> u8 {
    0
}

#[rate_limit(key = "find", rate = 2, per = "1s", algorithm = sliding, wait = 0)]
async fn find() -> u8 {
    0
}

#[rate_limit(key = "list", rate = 2, per = "1s", wait = false)]
async fn list() -> u8 {
    0
}

fn main() {}
