use ratelimit_runtime::{Rejection, rate_limit};

const BURST: u32 = 200;

// A call may cost all there is.
#[rate_limit(key = "rate", rate = 3, per = "1s", permits = 3)]
async fn rate() {}

#[rate_limit(key = "burst", rate = 3, per = "1s", algorithm = "token_bucket", burst = 5, permits = 5)]
async fn burst() {}

#[rate_limit(key = "limits", limits = [(3, "1s"), (30, "1m")], permits = 3, wait = "none")]
async fn limits() -> Result<(), Rejection> {
    Ok(())
}

// With the default burst this bucket could not be counted exactly; what a constant comes to, only rustc knows.
#[rate_limit(key = "constant", rate = 2147483647, per = "30d", algorithm = "token_bucket", burst = BURST)]
async fn constant() {}

fn main() {
    let _ = (rate(), burst(), limits(), constant());
}
