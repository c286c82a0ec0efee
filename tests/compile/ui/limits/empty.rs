use ratelimit_runtime::rate_limit;

#[rate_limit(key = "quote", limits = [])]
async fn quote() -> u8 {
    0
}

fn main() {}
