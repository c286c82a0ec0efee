use ratelimit_runtime::rate_limit;

trait Search {
    #[rate_limit(key = "search", rate = 2, per = "1s")]
    async fn search(&self, query: &str);
}

fn main() {}
