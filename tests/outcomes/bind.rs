//! `bind`: the permit as a variable of the body.

use ratelimit_runtime::{Decision, Permit, Rejection, limiter, rate_limit};
use tests::soon;

use super::{alone, free};

#[rate_limit(key = "bound:{user}", rate = 10, per = "1h", permits = 4, wait = "none", bind = permit)]
async fn bound(user: u64) -> Result<(u64, u64), Rejection> {
    let permit: Permit = permit;
    Ok((permit.permits(), permit.remaining()))
}

#[tokio::test]
async fn the_body_sees_its_permit() {
    alone(async {
        assert_eq!(bound(1).await.unwrap(), (4, 6));
        assert_eq!(bound(1).await.unwrap(), (4, 2));
        assert!(bound(1).await.is_err());
    })
    .await;
}

#[rate_limit(key = "bound-back", rate = 1, per = "1h", bind = permit)]
async fn gives_back() -> u64 {
    permit.give_back().await.expect("the store answers")
}

#[rate_limit(key = "bound-settled", rate = 10, per = "1h", permits = 5, bind = permit)]
async fn settles(used: u64) -> u64 {
    permit.settle(used).await.expect("the store answers").returned
}

#[tokio::test]
async fn the_body_decides_what_becomes_of_it() {
    alone(Box::pin(async {
        for _ in 0..3 {
            assert_eq!(gives_back().await, 1);
        }
        assert_eq!(settles(2).await, 3);
        assert_eq!(free(&limiter!("bound-settled")).await, 8);
        assert_eq!(settles(8).await, 0);
        assert_eq!(free(&limiter!("bound-settled")).await, 0);
    }))
    .await;
}

/// A stream of chunks, as far as this test needs one.
struct Chunks(Permit);

impl Chunks {
    fn next(&self) {
        self.0.record(2);
    }
}

#[rate_limit(key = "bound-stream", rate = 10, per = "1h", permits = 9, wait = "none", bind = permit)]
async fn stream() -> Result<Chunks, Rejection> {
    Ok(Chunks(permit))
}

#[tokio::test]
async fn it_can_leave_the_function_in_a_stream() {
    alone(async {
        let chunks = stream().await.unwrap();
        let limiter = limiter!("bound-stream");
        assert_eq!(free(&limiter).await, 1);
        chunks.next();
        chunks.next();
        drop(chunks);
        soon("the permits are settled", async || free(&limiter).await == 6).await;
    })
    .await;
}

#[rate_limit(key = "bound-skipped", rate = 1, per = "1h", wait = "none", skip_if = admin, bind = permit)]
async fn skippable(admin: bool) -> Result<bool, Rejection> {
    let permit: Option<Permit> = permit;
    Ok(permit.is_some())
}

#[tokio::test]
async fn an_exempt_call_has_none() {
    alone(async {
        assert!(!skippable(true).await.unwrap());
        assert!(skippable(false).await.unwrap());
        assert!(!skippable(true).await.unwrap());
        assert!(skippable(false).await.is_err());
    })
    .await;
}

#[rate_limit(key = "bound-free", rate = 1, per = "1h", wait = "none", permits = cost, bind = permit)]
async fn computed(cost: u64) -> Result<u64, Rejection> {
    Ok(permit.permits())
}

#[tokio::test]
async fn a_free_call_holds_no_permits() {
    alone(async {
        for _ in 0..3 {
            assert_eq!(computed(0).await.unwrap(), 0);
        }
        assert_eq!(computed(1).await.unwrap(), 1);
        assert!(computed(1).await.is_err() && computed(u64::MAX).await.is_err());
    })
    .await;
}

#[rate_limit(key = "bound-user:{user}", rate = 5, per = "1h", permits = 2, wait = "none", bind = own)]
#[rate_limit(key = "bound-all", rate = 9, per = "1h", wait = "none")]
#[rate_limit(key = "bound-guests", rate = 9, per = "1h", permits = 3, skip_if = user > 1, bind = guests)]
async fn stacked(user: u64) -> Result<(String, u64, Option<u64>), Rejection> {
    Ok((own.limiter().to_owned(), own.permits(), guests.as_ref().map(Permit::permits)))
}

#[tokio::test]
async fn each_limit_has_its_own() {
    alone(async {
        let (limiter, own, guests) = stacked(1).await.unwrap();
        assert_eq!((&*limiter, own, guests), ("bound-user:{user}", 2, Some(3)));
        let (_, own, guests) = stacked(2).await.unwrap();
        assert_eq!((own, guests), (2, None));
    })
    .await;
}

struct Shop {
    name: String,
}

#[async_trait::async_trait]
trait Orders {
    async fn place(&self, item: &str) -> Result<String, Rejection>;
}

#[async_trait::async_trait]
impl Orders for Shop {
    #[rate_limit(key = "bound-boxed:{self.name}", rate = 1, per = "1h", wait = "none", bind = permit)]
    async fn place(&self, item: &str) -> Result<String, Rejection> {
        let decision: &Decision = &permit;
        Ok(format!("{item} {} {}", self.name, decision.remaining()))
    }
}

#[tokio::test]
async fn methods_of_a_boxed_trait_have_it_too() {
    alone(async {
        let shop = Shop { name: "acme".to_owned() };
        assert_eq!(shop.place("tea").await.unwrap(), "tea acme 0");
    })
    .await;
}

macro_rules! limited {
    ($name:ident, $permit:ident, $body:expr) => {
        #[rate_limit(key = "bound-macro", rate = 9, per = "1h", bind = $permit)]
        async fn $name() -> u64 {
            $body
        }
    };
}

limited!(through_a_macro, taken, taken.permits());

#[tokio::test]
async fn its_name_may_come_through_a_macro() {
    assert_eq!(alone(through_a_macro()).await, 1);
}

#[test]
fn futures_can_be_sent_when_the_body_can() {
    fn sent<T: Send>(_: &T) {}
    sent(&bound(1));
    sent(&stream());
    sent(&stacked(1));
}
