use ratelimit_runtime::rate_limit;

#[rate_limit(key = "quote", limits = [(0, "1s"), (1000, "1 hour")])]
async fn quote() -> u8 {
    0
}

fn main() {}
