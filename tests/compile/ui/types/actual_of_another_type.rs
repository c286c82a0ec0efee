use ratelimit_runtime::rate_limit;

#[rate_limit(key = "tokens", rate = 9, per = "1s", actual = |answer| answer.len() as i64)]
async fn complete() -> String {
    String::new()
}

#[rate_limit(key = "words", rate = 9, per = "1s", actual = String::len, refund_if = String::is_empty)]
async fn count() -> &'static str {
    ""
}

#[rate_limit(key = "lines", rate = 9, per = "1s", actual = |text| if text.is_empty() { 1 } else { 5 })]
async fn read() -> String {
    String::new()
}

fn main() {}
