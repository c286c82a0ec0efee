use ratelimit_runtime::limiter;

fn handle() {
    let _ = limiter!("orders:{user_id}:{order.tenant}");
}

fn main() {}
