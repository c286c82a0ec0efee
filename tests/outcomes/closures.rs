//! Closures in place of paths.

use ratelimit_runtime::{Reason, Rejection, limiter, rate_limit};

use super::{alone, free};

#[derive(Debug, PartialEq)]
enum Quote {
    Fresh(String),
    Cached(String, Reason),
}

#[rate_limit(
    key = "closure",
    rate = 1,
    per = "1h",
    wait = "none",
    fallback = |rejection| Quote::Cached(symbol.to_owned(), rejection.reason())
)]
async fn quote(symbol: &str) -> Quote {
    Quote::Fresh(symbol.to_owned())
}

#[rate_limit(
    key = "closure-moves",
    rate = 1,
    per = "1h",
    wait = "none",
    fallback = move |rejection: Rejection| Quote::Cached(symbol, rejection.reason())
)]
async fn owned(symbol: String) -> Quote {
    Quote::Fresh(symbol)
}

async fn cached(symbol: &str, reason: Reason) -> Quote {
    tokio::task::yield_now().await;
    Quote::Cached(symbol.to_owned(), reason)
}

#[rate_limit(
    key = "closure-async",
    rate = 1,
    per = "1h",
    wait = "none",
    fallback = |rejection| cached(symbol, rejection.reason())
)]
async fn later(symbol: &str) -> Quote {
    Quote::Fresh(symbol.to_owned())
}

#[rate_limit(
    key = "closure-of-async",
    rate = 1,
    per = "1h",
    wait = "none",
    fallback = async |rejection| cached(symbol, rejection.reason()).await
)]
async fn even_later(symbol: &str) -> Quote {
    Quote::Fresh(symbol.to_owned())
}

#[tokio::test]
async fn a_fallback_uses_the_parameters() {
    alone(async {
        let instead = || Quote::Cached("ACME".to_owned(), Reason::Limited);
        assert_eq!(quote("ACME").await, Quote::Fresh("ACME".to_owned()));
        assert_eq!(quote("ACME").await, instead());
        assert_eq!(owned("ACME".to_owned()).await, Quote::Fresh("ACME".to_owned()));
        assert_eq!(owned("ACME".to_owned()).await, instead());
        assert_eq!(later("ACME").await, Quote::Fresh("ACME".to_owned()));
        assert_eq!(later("ACME").await, instead());
        assert_eq!(even_later("ACME").await, Quote::Fresh("ACME".to_owned()));
        assert_eq!(even_later("ACME").await, instead());
    })
    .await;
}

struct Shop {
    name: String,
}

#[async_trait::async_trait]
trait Prices {
    async fn of(&self, item: &str) -> String;
}

fn renamed(name: &str) -> bool {
    name.is_empty()
}

#[async_trait::async_trait]
impl Prices for Shop {
    #[rate_limit(
        key = "closure-boxed",
        rate = 1,
        per = "1h",
        wait = "none",
        skip_if = self::renamed(&self.name),
        fallback = |_| format!("{item} at {}, perhaps", self.name)
    )]
    async fn of(&self, item: &str) -> String {
        format!("{item} at {}", self.name)
    }
}

#[tokio::test]
async fn a_fallback_of_a_boxed_method_has_its_self() {
    alone(async {
        let shop = Shop { name: "acme".to_owned() };
        assert_eq!(shop.of("tea").await, "tea at acme");
        assert_eq!(shop.of("tea").await, "tea at acme, perhaps");
    })
    .await;
}

#[derive(Debug)]
struct Answer {
    tokens: u32,
}

#[rate_limit(
    key = "closure-costs",
    rate = 100,
    per = "1h",
    permits = 10,
    wait = "none",
    refund_if = |answer| answer.as_ref().is_ok_and(|answer| answer.tokens == 0),
    actual = |answer| answer.as_ref().ok().map(|answer| answer.tokens)
)]
async fn complete(tokens: u32) -> Result<Answer, Rejection> {
    Ok(Answer { tokens })
}

#[tokio::test]
async fn closures_read_the_result() {
    alone(async {
        let limiter = limiter!("closure-costs");
        for (tokens, left) in [(0, 100), (4, 96), (16, 80), (10, 70)] {
            assert_eq!(complete(tokens).await.unwrap().tokens, tokens);
            assert_eq!(free(&limiter).await, left, "after {tokens}");
        }
    })
    .await;
}
