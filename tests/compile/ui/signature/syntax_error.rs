use ratelimit_runtime::rate_limit;

#[rate_limit(key = "search:{user}", rate = 2, per = "1s")]
async fn search(Ok(user) | Err(user): Result<u64, u64>) -> u64 {
    user
}

struct Shop;

impl Shop {
    #[rate_limit(key = "find:{user}", rate = 2, per = "1s")]
    pub async fn find(&self, user) -> u64 {
        user
    }
}

fn main() {}
