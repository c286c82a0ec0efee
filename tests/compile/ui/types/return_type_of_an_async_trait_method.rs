use ratelimit_runtime::rate_limit;

struct Index;

#[async_trait::async_trait]
trait Search {
    async fn search(&self, query: &str) -> Option<usize>;
}

#[async_trait::async_trait]
impl Search for Index {
    #[rate_limit(key = "search", rate = 2, per = "1s", wait = "none")]
    async fn search(&self, query: &str) -> Option<usize> {
        Some(query.len())
    }
}

fn main() {}
