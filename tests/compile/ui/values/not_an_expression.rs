use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search", rate = +5, per = "1s")]
async fn search() {}

#[rate_limit(key = "find", rate = 5, per = "1s", bind = mut permit)]
async fn find() {}

#[rate_limit(key = "list", limits = [{ rate: 10 }])]
async fn list() {}

#[rate_limit(key => "show", rate = 5, per = "1s")]
async fn show() {}

fn main() {}
