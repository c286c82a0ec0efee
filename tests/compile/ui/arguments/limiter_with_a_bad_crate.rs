use ratelimit_runtime::limiter;

fn without_a_value() {
    let _ = limiter!("orders", crate = );
}

fn without_an_equals_sign() {
    let _ = limiter!("orders", crate ratelimit_runtime);
}

fn half_a_path() {
    let _ = limiter!("orders", crate = ratelimit_runtime::);
}

fn main() {}
