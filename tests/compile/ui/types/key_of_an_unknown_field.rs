use ratelimit_runtime::rate_limit;

struct Query {
    text: String,
}

#[rate_limit(key = "search:{query.txt}", rate = 2, per = "1s")]
async fn search(query: Query) {
    let _ = query;
}

fn main() {}
