//! Closures in place of paths, and what a fallback adds to the function's future.

use std::error::Error;
use std::future::Future;

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

/// What cannot be sent to another thread.
type Outcome = Result<u8, Box<dyn Error>>;

fn instead(_: Rejection) -> Outcome {
    Err("instead".into())
}

#[rate_limit(key = "sent", rate = 1, per = "1h", wait = "none", fallback = instead)]
async fn sent() -> Outcome {
    Ok(1)
}

#[rate_limit(key = "sent-closure", rate = 1, per = "1h", wait = "none", fallback = |_| Ok(2))]
async fn sent_by_a_closure() -> Outcome {
    Ok(1)
}

#[rate_limit(
    key = "sent-settled",
    rate = 1,
    per = "1h",
    wait = "none",
    refund_on = "err",
    fallback = instead
)]
async fn sent_and_settled() -> Outcome {
    Ok(1)
}

#[rate_limit(key = "sent-async", rate = 1, per = "1h", wait = "none", fallback = async |_| Ok(2))]
async fn sent_later() -> Outcome {
    Ok(1)
}

#[rate_limit(key = "large", rate = 1, per = "1h", wait = "none", fallback = |_| [1; 4096])]
async fn large() -> [u8; 4096] {
    [0; 4096]
}

async fn takes_its_time(_: Rejection) -> u8 {
    let answer = [1; 4096];
    tokio::task::yield_now().await;
    answer[0]
}

#[rate_limit(key = "large-later", rate = 1, per = "1h", wait = "none", fallback = takes_its_time)]
async fn large_later() -> u8 {
    0
}

fn sendable<F: Future + Send>(future: F) -> F {
    future
}

#[tokio::test]
async fn what_a_fallback_answers_is_no_part_of_the_future() {
    alone(async {
        assert_eq!(sendable(sent()).await.unwrap(), 1);
        assert!(sendable(sent()).await.is_err());
        assert_eq!(sendable(sent_by_a_closure()).await.unwrap(), 1);
        assert_eq!(sendable(sent_by_a_closure()).await.unwrap(), 2);
        assert_eq!(sendable(sent_and_settled()).await.unwrap(), 1);
        assert!(sendable(sent_and_settled()).await.is_err());
        assert_eq!(sendable(sent_later()).await.unwrap(), 1);
        assert_eq!(sendable(sent_later()).await.unwrap(), 2);
        let size = size_of_val(&large());
        assert!(size < 1024, "{size} bytes");
        let size = size_of_val(&large_later());
        assert!(size < 4096 + 1024, "{size} bytes, once the future of the fallback");
        assert_eq!(large().await[0], 0);
        assert_eq!(large().await[0], 1);
    })
    .await;
}
