use async_trait::async_trait;
use ratelimit_runtime::rate_limit;

struct Shop;

#[async_trait]
trait Orders {
    async fn place(&self, item: u32, user: (u64, u8));
}

#[async_trait]
impl Orders for Shop {
    #[rate_limit(key = "orders:{tenant.id}", rate = 2, per = "1s")]
    async fn place(&self, item: u32, (user, _): (u64, u8)) {
        let _ = (item, user);
    }
}

fn main() {}
