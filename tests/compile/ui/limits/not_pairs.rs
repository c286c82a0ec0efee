use ratelimit_runtime::rate_limit;

#[rate_limit(key = "quote", limits = [10, (5, "1s", 7), (1, "1m")])]
async fn quote() -> u8 {
    0
}

fn main() {}
