use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "1d", time_zone = "Europe/Vienna", algorithm = "fixed_window")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
