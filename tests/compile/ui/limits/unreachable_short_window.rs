use ratelimit_runtime::rate_limit;

#[rate_limit(key = "quote", limits = [(10, "1s"), (10, "1h")])]
async fn quote() -> u8 {
    0
}

fn main() {}
