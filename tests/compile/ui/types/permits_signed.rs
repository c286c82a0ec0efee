use ratelimit_runtime::{Rejection, rate_limit};

#[rate_limit(key = "mail", rate = 9, per = "1s", permits = count)]
async fn send(count: i64) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "letters", rate = 9, per = "1s", permits = if long { 2 } else { 1 })]
async fn write(long: bool) -> Result<(), Rejection> {
    Ok(())
}

fn main() {}
