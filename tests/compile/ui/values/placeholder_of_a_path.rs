use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search:{Self::X}", rate = 2, per = "1s")]
async fn search() {}

#[rate_limit(key = "find:{a.b::<u8>()}", rate = 2, per = "1s")]
async fn find(a: u8) {}

fn main() {}
