use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", limits = [(2, "1s"), (9, "1m")], time_zone = "Europe/Vienna")]
async fn search(query: &str) {
    let _ = query;
}

fn main() {}
