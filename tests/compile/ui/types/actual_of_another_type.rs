use ratelimit_runtime::rate_limit;

#[rate_limit(key = "tokens", rate = 9, per = "1s", actual = |answer| answer.len() as i64)]
async fn complete() -> String {
    String::new()
}

#[rate_limit(key = "words", rate = 9, per = "1s", actual = String::len, refund_if = String::is_empty)]
async fn count() -> &'static str {
    ""
}

fn main() {}
