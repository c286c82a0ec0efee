//! `refund_on = "ok"`, `refund_if` and `actual`: the result decides what the call cost.

use std::num::NonZeroU32;

use ratelimit_runtime::{Limits, Reason, Rejection, limiter, rate_limit};
use tests::{redis_server::RedisServer, soon};

use super::{alone, embedded, free, rejected};

#[derive(Debug, PartialEq)]
enum LoginError {
    Wrong,
    TooMany,
}

impl From<Rejection> for LoginError {
    fn from(_: Rejection) -> Self {
        Self::TooMany
    }
}

#[rate_limit(key = "login:{name}", rate = 3, per = "1h", wait = "none", refund_on = "ok")]
async fn login(name: &str, password: &str) -> Result<(), LoginError> {
    if password == "secret" { Ok(()) } else { Err(LoginError::Wrong) }
}

#[tokio::test]
async fn only_failures_count() {
    alone(async {
        for _ in 0..10 {
            assert_eq!(login("ann", "secret").await, Ok(()));
        }
        for _ in 0..3 {
            assert_eq!(login("ann", "guess").await, Err(LoginError::Wrong));
        }
        assert_eq!(login("ann", "secret").await, Err(LoginError::TooMany));
        assert_eq!(login("bob", "secret").await, Ok(()));
    })
    .await;
}

#[tokio::test]
async fn guesses_at_the_same_time_count_too() {
    alone(async {
        let limiter = limiter!("login:{name}", name = "eve");
        limiter.acquire(3).await.expect("they are free");
        assert_eq!(login("eve", "secret").await, Err(LoginError::TooMany));
    })
    .await;
}

#[tokio::test]
async fn the_limits_file_has_all_three_words() {
    for (word, after_ok, after_err) in [("ok", 3, 2), ("err", 2, 2), ("never", 2, 1)] {
        let yaml = format!("limiters:\n  \"login:{{name}}\": {{ refund_on: {word} }}\n");
        let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
        let code = async {
            let limiter = limiter!("login:{name}", name = "x");
            assert_eq!(login("x", "secret").await, Ok(()));
            assert_eq!(free(&limiter).await, after_ok, "{word}");
            assert_eq!(login("x", "guess").await, Err(LoginError::Wrong));
            assert_eq!(free(&limiter).await, after_err, "{word}");
        };
        limits.scope(code).await;
        assert!(limits.report().to_string().contains(&format!("refund_on: {word} (limits file)")));
    }
}

#[tokio::test]
async fn the_limits_file_cannot_judge_what_is_not_compiled_to_be() {
    let yaml = "limiters:\n  costs: { refund_on: ok }\n";
    let error = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap_err();
    assert!(
        error.to_string().contains(
            "sets `refund_on: ok`; write `refund_on = \"ok\"` in its attribute, or remove `refund_on`"
        ),
        "{error}"
    );
}

#[rate_limit(key = "costs", rate = 100, per = "1h", permits = 10, refund_if = is_empty, actual = length)]
async fn answer(text: &str) -> Answer {
    Answer(text.to_owned())
}

struct Answer(String);

fn is_empty(Answer(text): &Answer) -> bool {
    text.is_empty()
}

fn length(Answer(text): &Answer) -> usize {
    assert!(!text.is_empty(), "a refund goes first");
    text.len()
}

async fn costs(limits: &Limits) {
    let limiter = limits.scope(async { limiter!("costs") }).await;
    for (text, left) in [("", 100), ("four", 96), ("sixteen sixteen!", 80), ("", 80)] {
        assert_eq!(limits.scope(answer(text)).await.0, text);
        soon("the cost is settled", async || free(&limiter).await == left).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_costs_what_it_turned_out_to_cost() {
    costs(&embedded().build().await.unwrap()).await;
    let server = RedisServer::start();
    let builder = Limits::builder().redis(server.url()).no_limits_file();
    costs(&builder.build().await.unwrap()).await;
}

#[rate_limit(
    key = "costs-typed",
    rate = 100,
    per = "1h",
    wait = "none",
    permits = NonZeroU32::MIN.saturating_add(n),
    actual = typed
)]
async fn of_any_type(n: u32) -> Result<u32, Rejection> {
    Ok(n)
}

fn typed(result: &Result<u32, Rejection>) -> Option<NonZeroU32> {
    result.as_ref().ok().copied().and_then(NonZeroU32::new)
}

#[tokio::test]
async fn without_an_actual_cost_the_estimate_stands() {
    alone(async {
        let limiter = limiter!("costs-typed");
        assert_eq!(of_any_type(0).await.unwrap(), 0);
        assert_eq!(free(&limiter).await, 99);
        assert_eq!(of_any_type(9).await.unwrap(), 9);
        assert_eq!(free(&limiter).await, 90);
        assert_eq!(rejected(of_any_type(u32::MAX - 1).await), Some(Reason::ExceedsCapacity));
    })
    .await;
}

#[rate_limit(key = "costs-both", rate = 9, per = "1h", permits = 3, refund_on = "err", actual = |n| n.as_ref().ok().copied())]
#[rate_limit(key = "costs-other", rate = 9, per = "1h", wait = "none", skip_if = *n > 5, refund_if = Result::is_ok)]
async fn of_each_limit(n: &u64) -> Result<u64, Rejection> {
    let n = *n;
    if n == 0 {
        limiter!("costs-both").try_acquire(100).await?;
    }
    Ok(n)
}

#[tokio::test]
async fn each_limit_is_settled_by_its_own_arguments() {
    alone(async {
        let (both, other) = (limiter!("costs-both"), limiter!("costs-other"));
        for (n, of_both, of_other) in [(0, 9, 8), (1, 8, 8), (6, 2, 8)] {
            assert_eq!(of_each_limit(&n).await.is_ok(), n > 0);
            assert_eq!((free(&both).await, free(&other).await), (of_both, of_other), "after {n}");
        }
    })
    .await;
}
