use ratelimit_runtime::limiter;

fn handle() {
    let _ = limiter!("orders:{user_id", user_id = 42);
}

fn main() {}
