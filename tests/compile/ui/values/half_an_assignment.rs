use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = 2, per = "1s", skip_if = admin = )]
async fn search(admin: bool) {
    let _ = admin;
}

fn main() {}
