use ratelimit_runtime::limiter;

fn handle() {
    let _ = limiter!(user_id = 42);
}

fn main() {}
