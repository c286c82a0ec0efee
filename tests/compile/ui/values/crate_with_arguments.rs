use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "1s", crate = limits::<u8>::runtime)]
async fn search(query: &str) {
    let _ = query;
}

fn main() {
    drop(search("the function is still there"));
}
