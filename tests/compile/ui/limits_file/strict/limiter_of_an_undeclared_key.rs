use ratelimit_runtime::limiter;

fn handle() {
    let _ = limiter!("order:{user_id}", user_id = 42);
}

fn main() {}
