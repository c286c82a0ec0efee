use ratelimit_runtime::rate_limit;

#[rate_limit(key = "quote", rate = 5, per = "1s", limits = [(10, "1s"), (1000, "1h")])]
async fn quote() -> u8 {
    0
}

fn main() {}
