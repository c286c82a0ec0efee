use ratelimit_runtime::{Rejection, rate_limit};

fn stop(rejection: Rejection) -> ! {
    panic!("{rejection}")
}

#[rate_limit(key = "worker", rate = 100, per = "1s", wait = "none", fallback = stop)]
async fn work() -> ! {
    loop {}
}

#[rate_limit(key = "poller", rate = 100, per = "1s", refund_if = |_| true)]
async fn poll() -> ! {
    loop {}
}

fn main() {}
