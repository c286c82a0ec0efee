use ratelimit_runtime::rate_limit;

#[rate_limit(key = "mail:{to}", rate = 9, per = "1s", bind = permit)]
#[rate_limit(key = "mail", rate = 9, per = "1s", bind = permit)]
async fn send(to: &str) -> usize {
    to.len()
}

fn main() {}
