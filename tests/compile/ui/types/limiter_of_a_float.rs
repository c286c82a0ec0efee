use ratelimit_runtime::limiter;

fn handle() {
    let _ = limiter!("orders:{weight}", weight = 1.5);
}

fn main() {}
