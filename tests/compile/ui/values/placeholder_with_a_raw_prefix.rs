use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search:{r#match}", rate = 2, per = "1s")]
async fn search(r#match: u8) {
    let _ = r#match;
}

fn main() {}
