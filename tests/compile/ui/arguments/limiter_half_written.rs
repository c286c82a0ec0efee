use ratelimit_runtime::limiter;

fn without_a_value() {
    let _ = limiter!("orders:{user_id}", user_id = );
}

fn without_a_comma() {
    let _ = limiter!("orders:{user_id}" user_id = 1);
}

fn main() {}
