use ratelimit_runtime::rate_limit;

// A `day` of the calendar is a fixed window, but the file makes it 24 hours, which any algorithm can count.
#[rate_limit(key = "mail", rate = 1000, per = "day")]
async fn mail() {}

#[rate_limit(key = "report", rate = 1000, per = "day", algorithm = "token_bucket")]
async fn report() {}

fn main() {
    let _ = (mail(), report());
}
