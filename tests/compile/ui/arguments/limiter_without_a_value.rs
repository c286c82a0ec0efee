use ratelimit_runtime::limiter;

fn handle(user_id: u64) {
    // As by `format!`, it is taken from the scope.
    let _ = limiter!("orders:{user_id}:{order.tenant}");
}

fn main() {}
