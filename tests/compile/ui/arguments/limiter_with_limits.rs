use ratelimit_runtime::limiter;

fn handle() {
    let _ = limiter!("orders", rate = 5, per = "1s");
}

fn main() {}
