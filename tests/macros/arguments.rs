//! What each argument does to a call, and `limiter!`.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ratelimit_runtime::{Limits, Reason, Rejection, limiter, rate_limit};
use tokio::time::timeout;

use super::{alone, limits, refused};

const RATE: u32 = 1;

#[rate_limit(key = "constant", rate = self::RATE, per = "1h", wait = "none")]
async fn by_constant() -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn a_rate_by_a_constant() {
    alone(async {
        assert_eq!(by_constant().await.unwrap(), ());
        assert_eq!(refused(by_constant().await), Some(Reason::Limited));
    })
    .await;
}

#[rate_limit(
    key = "each",
    rate = 1,
    per = "1h",
    wait = "none",
    mode = "per_client",
    on_store_error = "allow"
)]
async fn each_process() -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn a_budget_for_each_process() {
    let limits = limits().await;
    let calls = limits.scope(async {
        assert_eq!(each_process().await.unwrap(), ());
        assert_eq!(refused(each_process().await), Some(Reason::Limited));
    });
    calls.await;
    let report = limits.report();
    let limiter = report.limiter("each").expect("it is on the list");
    let value = |name| &*limiter.setting(name).expect("it is set").value;
    assert_eq!((value("mode"), value("on_store_error")), ("per_client", "allow"));
}

#[rate_limit(key = "session:{session?}", rate = 1, per = "1h", wait = "none")]
async fn by_session(session: Option<&str>) -> Result<(), Rejection> {
    let _ = session;
    Ok(())
}

#[rate_limit(key = "{{pair}}:{left}:{right}", rate = 1, per = "1h", wait = "none")]
async fn by_pair(left: &str, right: String) -> Result<String, Rejection> {
    Ok(format!("{left}{right}"))
}

#[tokio::test]
async fn keys_are_told_apart() {
    alone(async {
        assert!(by_session(Some("a")).await.is_ok());
        assert!(by_session(None).await.is_ok());
        assert_eq!(
            refused(by_session(None).await),
            Some(Reason::Limited),
            "all without one share a limit"
        );

        assert!(by_pair("a:b", "c".to_owned()).await.is_ok());
        assert!(by_pair("a", "b:c".to_owned()).await.is_ok());
        assert!(by_pair("a}{", "b".to_owned()).await.is_ok());
        assert_eq!(refused(by_pair("a", "b:c".to_owned()).await), Some(Reason::Limited));
    })
    .await;
}

static COSTED: AtomicU32 = AtomicU32::new(0);

fn cost(items: &[u8]) -> usize {
    COSTED.fetch_add(1, Ordering::Relaxed);
    items.len()
}

#[rate_limit(key = "cost", rate = 3, per = "1h", wait = "none", permits = cost(&items))]
async fn at_a_cost(items: Vec<u8>) -> Result<Vec<u8>, Rejection> {
    Ok(items)
}

#[rate_limit(key = "fixed-cost", rate = 3, per = "1h", wait = "none", permits = 2)]
async fn at_a_fixed_cost() -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn calls_cost_what_they_say() {
    alone(async {
        assert!(at_a_cost(vec![]).await.is_ok(), "0 permits are free");
        assert_eq!(refused(at_a_cost(vec![0; 4]).await), Some(Reason::ExceedsCapacity));
        assert!(at_a_cost(vec![0; 3]).await.is_ok());
        assert_eq!(refused(at_a_cost(vec![0]).await), Some(Reason::Limited));
        assert_eq!(COSTED.load(Ordering::Relaxed), 4, "evaluated once for each call");

        assert!(at_a_fixed_cost().await.is_ok());
        assert_eq!(refused(at_a_fixed_cost().await), Some(Reason::Limited));
    })
    .await;
}

#[rate_limit(key = "bounded", rate = 1, per = "1s", wait = "1500ms")]
async fn bounded() -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "patient", rate = 1, per = "1h")]
async fn patient() -> u8 {
    1
}

#[tokio::test(start_paused = true)]
async fn calls_wait_as_long_as_they_say() {
    alone(async {
        let limits = Limits::current();
        assert!(bounded().await.is_ok());
        let second = tokio::spawn({
            let limits = limits.clone();
            async move { limits.scope(bounded()).await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(
            refused(bounded().await),
            Some(Reason::WaitTooLong),
            "its turn comes in 1900 ms"
        );
        assert!(second.await.unwrap().is_ok());

        assert_eq!(patient().await, 1);
        let waited = tokio::time::timeout(Duration::from_secs(3500), patient()).await;
        assert!(waited.is_err(), "the hour is not over");
        assert_eq!(patient().await, 1);
    })
    .await;
}

#[derive(Debug)]
enum Answer {
    Own(u8),
    Instead(Rejection),
    Later(Rejection),
}

#[rate_limit(key = "plain-fallback", rate = 1, per = "1h", wait = "none", fallback = instead)]
async fn with_a_fallback() -> Answer {
    Answer::Own(1)
}

#[rate_limit(key = "async-fallback:{id}", rate = 1, per = "1h", wait = "none", fallback = later::instead)]
async fn with_an_async_fallback(id: u8) -> Answer {
    Answer::Own(id)
}

fn instead(rejection: Rejection) -> Answer {
    Answer::Instead(rejection)
}

mod later {
    pub(super) async fn instead(rejection: super::Rejection) -> super::Answer {
        tokio::task::yield_now().await;
        super::Answer::Later(rejection)
    }
}

#[tokio::test]
async fn a_fallback_answers_instead() {
    alone(async {
        assert!(matches!(with_a_fallback().await, Answer::Own(1)));
        assert!(matches!(with_a_fallback().await, Answer::Instead(why) if why.limiter() == "plain-fallback"));
        assert!(matches!(with_an_async_fallback(2).await, Answer::Own(2)));
        let later = with_an_async_fallback(2).await;
        assert!(matches!(later, Answer::Later(why) if why.limiter() == "async-fallback:{id}"));
    })
    .await;
}

#[rate_limit(key = "skipped:{user}", rate = 1, per = "1h", wait = "none", skip_if = user == "admin" || user.is_empty())]
async fn skipped(user: &str) -> Result<usize, Rejection> {
    Ok(user.len())
}

/// In parentheses and braces that rustc reports where they are unnecessary.
#[rate_limit(
    key = "skipped-delimited:{user}",
    rate = 1,
    per = "1h",
    wait = "none",
    skip_if = (user == "admin" || user.is_empty()),
    permits = { user.len() }
)]
async fn skipped_by_parentheses(user: &str) -> Result<usize, Rejection> {
    Ok(user.len())
}

#[tokio::test]
async fn a_condition_lets_calls_through() {
    alone(async {
        assert!(skipped("ann").await.is_ok());
        assert_eq!(refused(skipped("ann").await), Some(Reason::Limited));
        for _ in 0..3 {
            assert!(skipped("admin").await.is_ok());
        }
        let admin = limiter!("skipped:{user}", user = "admin");
        assert!(admin.try_acquire(1).await.is_ok(), "its permit was never taken");
        assert!(skipped_by_parentheses("admin").await.is_ok());
        assert_eq!(refused(skipped_by_parentheses("ann").await), Some(Reason::ExceedsCapacity));
    })
    .await;
}

mod renamed {
    pub(super) use ratelimit_runtime as limits;
    pub(super) use ratelimit_runtime::rate_limit;
}

#[rate_limit(key = "renamed", rate = 1, per = "1h", wait = "none", crate = renamed::limits)]
async fn through_another_name() -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn the_runtime_under_another_name() {
    alone(async {
        assert!(through_another_name().await.is_ok());
        let handle = limiter!("renamed", crate = self::renamed::limits);
        assert_eq!(refused(handle.try_acquire(1).await), Some(Reason::Limited));
    })
    .await;
}

#[renamed::rate_limit(key = "re-exported:first", rate = 1, per = "1h", wait = "none", crate = renamed::limits)]
#[renamed::rate_limit(key = "re-exported:second", rate = 2, per = "1h", wait = "none")]
async fn through_a_re_export() -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn re_exported_attributes_are_decided_together() {
    alone(async {
        assert!(through_a_re_export().await.is_ok());
        assert_eq!(refused(through_a_re_export().await), Some(Reason::Limited));
        let second = limiter!("re-exported:second");
        assert!(second.try_acquire(1).await.is_ok(), "it has its permit back");
    })
    .await;
}

#[rate_limit(key = "handles:{order.tenant}:{user?}", rate = 2, per = "1h", wait = "none")]
async fn with_handles(order: Order, user: Option<u64>) -> Result<Option<u64>, Rejection> {
    drop(order);
    Ok(user)
}

struct Order {
    tenant: String,
}

#[tokio::test]
async fn a_handle_is_the_limiter_of_the_function() {
    alone(async {
        let order = Order { tenant: "a/b".to_owned() };
        let handle = limiter!(
            "handles:{order.tenant}:{user?}",
            user = Some(42),
            order.tenant = order.tenant.as_str()
        );
        assert!(handle.try_acquire(1).await.is_ok());
        assert!(with_handles(order, Some(42)).await.is_ok());
        assert_eq!(refused(handle.try_acquire(1).await), Some(Reason::Limited));

        let nobody =
            limiter!("handles:{order.tenant}:{user?}", order.tenant = "a/b", user = None::<u64>);
        assert!(nobody.try_acquire(1).await.is_ok());
        assert_ne!(nobody.name(), handle.name());
    })
    .await;
}

#[rate_limit(key = "twice:{id}:{id}", rate = 1, per = "1h", wait = "none")]
async fn twice(id: u32) -> Result<u32, Rejection> {
    Ok(id)
}

#[tokio::test]
async fn a_value_of_a_handle_is_evaluated_once() {
    alone(async {
        let evaluated = AtomicU32::new(7);
        let next = || evaluated.fetch_add(1, Ordering::Relaxed);
        let handle = limiter!("twice:{id}:{id}", id = next());
        assert_eq!(evaluated.load(Ordering::Relaxed), 8);
        assert!(handle.name().contains("twice:7:7"), "{}", handle.name());
        assert!(handle.try_acquire(1).await.is_ok());
        assert_eq!(refused(twice(7).await), Some(Reason::Limited));
    })
    .await;
}

#[rate_limit(key = "waits:{shop}", rate = 1, per = "1h", wait = "2h")]
async fn for_hours(shop: &str) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "waits:{shop}", rate = 1, per = "1h", wait = "none")]
async fn hasty(shop: &str) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "waits:{shop}", rate = 1, per = "1h", wait = "1s")]
async fn brief(shop: &str) -> Result<(), Rejection> {
    Ok(())
}

/// It sets no `wait`, so a call waits as long as necessary.
#[rate_limit(key = "waits:{shop}", rate = 1, per = "1h", permits = permits)]
async fn unset(shop: &str, permits: u32) -> Result<(), Rejection> {
    Ok(())
}

#[rate_limit(key = "waits_in_two", rate = 1, per = "1h", wait = "none")]
async fn at_once() -> Result<(), Rejection> {
    Ok(())
}

/// A function that cannot reject calls may share the limiter of one that can.
#[rate_limit(key = "waits_in_two", rate = 1, per = "1h")]
async fn in_background() {}

/// The `wait` of one function once was that of all functions with its key.
#[tokio::test]
async fn how_long_calls_wait_is_up_to_each_function_with_the_key() {
    async fn waits(call: impl Future) -> bool {
        timeout(Duration::from_millis(5), call).await.is_err()
    }

    let limits = limits().await;
    let calls = limits.scope(async {
        hasty("a").await.unwrap();
        for _ in 0..2 {
            assert_eq!(refused(hasty("a").await), Some(Reason::Limited));
            assert_eq!(refused(brief("a").await), Some(Reason::WaitTooLong));
            assert!(waits(for_hours("a")).await && waits(unset("a", 1)).await);
        }
        at_once().await.unwrap();
        assert_eq!(refused(at_once().await), Some(Reason::Limited));
        assert!(waits(in_background()).await);
    });
    calls.await;

    let yaml = "limiters: { 'waits:{shop}': { wait: 2s } }";
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    let calls = limits.scope(async {
        hasty("a").await.unwrap();
        assert_eq!(refused(hasty("a").await), Some(Reason::WaitTooLong));
        assert_eq!(refused(for_hours("a").await), Some(Reason::WaitTooLong));
        assert_eq!(refused(unset("a", 1).await), Some(Reason::WaitTooLong));
    });
    calls.await;
}
