use ratelimit_runtime::rate_limit;

#[rate_limit(key = "mail", rate = 9, per = "1s", bind = permit)]
async fn send((permit, to): (u64, &str)) -> usize {
    to.len() + usize::try_from(permit).unwrap_or(0)
}

fn main() {}
