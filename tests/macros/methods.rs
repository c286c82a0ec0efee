//! Methods: every receiver, traits, and `#[async_trait]`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ratelimit_runtime::{Reason, Rejection, rate_limit};

use super::{alone, refused};

#[derive(Clone)]
struct Shop {
    name: String,
}

fn shop(name: &str) -> Shop {
    Shop { name: name.to_owned() }
}

impl Shop {
    #[allow(clippy::needless_lifetimes, reason = "a lifetime with a name")]
    #[rate_limit(key = "by-reference:{self.name}:{id}", rate = 1, per = "1h", wait = "none")]
    async fn by_reference<'a>(&'a self, id: u64) -> Result<&'a str, Rejection> {
        let _ = id;
        Ok(&self.name)
    }

    #[rate_limit(key = "by-mutable-reference:{self.name}", rate = 1, per = "1h", wait = "none")]
    async fn by_mutable_reference(&mut self) -> Result<usize, Rejection> {
        self.name.push('!');
        Ok(self.name.len())
    }

    #[rate_limit(key = "by-value:{self.name}", rate = 1, per = "1h", wait = "none")]
    async fn by_value(mut self) -> Result<String, Rejection> {
        self.name.push('!');
        Ok(self.name)
    }

    #[rate_limit(key = "by-arc:{self.name}", rate = 1, per = "1h", wait = "none")]
    async fn by_arc(self: Arc<Self>) -> Result<usize, Rejection> {
        Ok(Arc::strong_count(&self))
    }

    #[rate_limit(key = "without", rate = 1, per = "1h", wait = "none")]
    async fn without_a_receiver(name: &str) -> Result<Self, Rejection> {
        Ok(shop(name))
    }
}

#[tokio::test]
async fn every_receiver() {
    alone(async {
        let (acme, mut other) = (shop("acme"), shop("other"));
        assert_eq!(acme.by_reference(1).await.unwrap(), "acme");
        assert_eq!(refused(acme.by_reference(1).await), Some(Reason::Limited));
        assert_eq!(other.by_reference(1).await.unwrap(), "other");

        assert_eq!(other.by_mutable_reference().await.unwrap(), 6);
        assert_eq!(other.by_mutable_reference().await.unwrap(), 7, "by now it has another name");

        assert_eq!(acme.clone().by_value().await.unwrap(), "acme!".to_owned());
        assert_eq!(refused(acme.clone().by_value().await), Some(Reason::Limited));

        let acme = Arc::new(acme);
        assert_eq!(Arc::clone(&acme).by_arc().await.unwrap(), 2);
        assert_eq!(refused(acme.by_arc().await), Some(Reason::Limited));

        assert!(Shop::without_a_receiver("a").await.is_ok());
        assert_eq!(refused(Shop::without_a_receiver("b").await), Some(Reason::Limited));
    })
    .await;
}

trait Visit {
    fn name(&self) -> String;

    #[rate_limit(key = "default:{id}", rate = 1, per = "1h", wait = "none")]
    async fn visit(&self, id: u64) -> Result<String, Rejection> {
        let _ = id;
        Ok(self.name())
    }

    async fn leave(self, id: u64) -> Result<String, Rejection>;
}

impl Visit for Shop {
    fn name(&self) -> String {
        self.name.clone()
    }

    #[rate_limit(key = "leave:{self.name}:{id}", rate = 1, per = "1h", wait = "none")]
    async fn leave(self, id: u64) -> Result<String, Rejection> {
        let _ = id;
        Ok(self.name)
    }
}

#[tokio::test]
async fn traits_with_async_functions() {
    alone(async {
        let acme = shop("acme");
        assert_eq!(acme.visit(1).await.unwrap(), "acme".to_owned());
        assert_eq!(
            refused(shop("other").visit(1).await),
            Some(Reason::Limited),
            "the default method has one limit"
        );
        assert_eq!(acme.clone().leave(1).await.unwrap(), "acme".to_owned());
        assert_eq!(refused(acme.leave(1).await), Some(Reason::Limited));
    })
    .await;
}

#[async_trait::async_trait]
trait Ledger: Send + Sync {
    async fn append(&self, id: u64, (text, _): (String, u8)) -> Result<String, Rejection>;
    async fn sum(&self, numbers: &[u32]) -> Result<u32, Rejection>;
    async fn close(self: Arc<Self>, user: Option<&str>) -> Result<usize, Rejection>;
    async fn count<T: Send + 'static>(&self, values: Vec<T>) -> Result<usize, Rejection>
    where
        Self: Sized;
    async fn nothing(&self, id: u64);

    #[rate_limit(key = "ledger-default:{id}", rate = 1, per = "1h", wait = "none")]
    async fn by_default(&self, mut id: u64) -> Result<u64, Rejection> {
        id += 1;
        Ok(id)
    }
}

#[async_trait::async_trait]
impl Ledger for Shop {
    #[rate_limit(key = "append:{self.name}:{id}:{text}", rate = 1, per = "1h", wait = "none")]
    async fn append(&self, id: u64, (text, _): (String, u8)) -> Result<String, Rejection> {
        Ok(format!("{} {id} {text}", self.name))
    }

    #[rate_limit(key = "sum:{self.name}", rate = 4, per = "1h", wait = "none", permits = self.cost(numbers))]
    #[rate_limit(key = "sum-of-all", rate = 2, per = "1h", wait = "none", skip_if = self.name == "free")]
    async fn sum(&self, numbers: &[u32]) -> Result<u32, Rejection> {
        Ok(numbers.iter().sum())
    }

    #[rate_limit(key = "close:{self.name}:{user?}", rate = 1, per = "1h", wait = "none")]
    async fn close(self: Arc<Self>, user: Option<&str>) -> Result<usize, Rejection> {
        let _ = user;
        Ok(Arc::strong_count(&self))
    }

    #[rate_limit(key = "count", rate = 1, per = "1h", wait = "none")]
    async fn count<T: Send + 'static>(&self, values: Vec<T>) -> Result<usize, Rejection> {
        Ok(values.len())
    }

    #[rate_limit(key = "nothing:{id}", rate = 1, per = "1h")]
    async fn nothing(&self, id: u64) {
        let _ = id;
    }
}

impl Shop {
    fn cost(&self, numbers: &[u32]) -> usize {
        numbers.len() + self.name.len() - 4
    }
}

#[tokio::test]
async fn methods_that_async_trait_has_rewritten() {
    alone(async {
        let acme: Arc<Shop> = Arc::new(shop("acme"));
        let ledger: Arc<dyn Ledger> = Arc::clone(&acme) as _;
        let text = |text: &str| (text.to_owned(), 0);
        assert_eq!(ledger.append(1, text("a")).await.unwrap(), "acme 1 a".to_owned());
        assert_eq!(ledger.append(1, text("b")).await.unwrap(), "acme 1 b".to_owned());
        assert_eq!(refused(ledger.append(1, text("a")).await), Some(Reason::Limited));

        assert_eq!(Arc::clone(&ledger).close(None).await.unwrap(), 3);
        assert_eq!(refused(Arc::clone(&ledger).close(None).await), Some(Reason::Limited));
        assert_eq!(Arc::clone(&ledger).close(Some("ann")).await.unwrap(), 3);

        assert_eq!(acme.count(vec!['a']).await.unwrap(), 1);
        assert_eq!(refused(acme.count(vec![0.5]).await), Some(Reason::Limited));

        assert_eq!(ledger.by_default(1).await.unwrap(), 2);
        assert_eq!(refused(ledger.by_default(1).await), Some(Reason::Limited));
        ledger.nothing(1).await;
    })
    .await;
}

#[tokio::test]
async fn self_in_the_arguments_of_a_rewritten_method() {
    alone(async {
        let (acme, free) = (shop("acme"), shop("free"));
        assert_eq!(acme.sum(&[1, 2, 3]).await.unwrap(), 6);
        assert_eq!(
            refused(acme.sum(&[1, 2]).await),
            Some(Reason::Limited),
            "it costs 2 and 1 is left"
        );
        assert_eq!(shop("soon").sum(&[1]).await.unwrap(), 1, "the lower one was not asked then");
        assert_eq!(
            refused(shop("late").sum(&[1]).await),
            Some(Reason::Limited),
            "the lower one is used up"
        );
        assert_eq!(free.sum(&[1]).await.unwrap(), 1, "and not asked here");
    })
    .await;
}

/// As the crate `futures` has it.
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

trait Desk {
    fn ask(&self, id: u64) -> Pin<Box<dyn Future<Output = Result<String, Rejection>> + Send + '_>>;
    fn reply(&self, text: String) -> BoxFuture<'_, Result<String, Rejection>>;
}

impl Desk for Shop {
    #[rate_limit(key = "ask:{self.name}:{id}", rate = 1, per = "1h", wait = "none")]
    fn ask(&self, id: u64) -> Pin<Box<dyn Future<Output = Result<String, Rejection>> + Send + '_>> {
        Box::pin(async move { Ok(format!("{} {id}", self.name)) })
    }

    #[rate_limit(key = "reply:{text}", rate = 1, per = "1h", wait = "none", refund_on = "err")]
    fn reply(&self, text: String) -> BoxFuture<'_, Result<String, Rejection>> {
        Box::pin(async move { Ok(text + &self.name) })
    }
}

#[tokio::test]
async fn methods_that_return_boxed_futures() {
    alone(async {
        let desk = shop("acme");
        assert_eq!(desk.ask(1).await.unwrap(), "acme 1");
        assert_eq!(refused(desk.ask(1).await), Some(Reason::Limited));
        assert_eq!(desk.reply("dear ".to_owned()).await.unwrap(), "dear acme");
        assert_eq!(refused(desk.reply("dear ".to_owned()).await), Some(Reason::Limited));
    })
    .await;
}
