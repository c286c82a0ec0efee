use ratelimit_runtime::{Rejection, rate_limit};

fn default<T: Default>(_: Rejection) -> T {
    T::default()
}

#[rate_limit(key = "names", rate = 2, per = "1s", wait = "none", fallback = default)]
async fn names() -> impl Iterator<Item = u8> {
    vec![1].into_iter()
}

fn main() {}
