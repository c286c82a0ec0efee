//! Free functions: generics, patterns, `impl Trait`, attributes, and the way out of the body.

use std::fmt::Display;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ratelimit_runtime::{Reason, Rejection, rate_limit};

use super::{alone, refused};

#[rate_limit(key = "plain", rate = 2, per = "1h", wait = "none")]
async fn plain(text: &str) -> Result<usize, Rejection> {
    Ok(text.len())
}

#[tokio::test]
async fn a_plain_function() {
    alone(async {
        assert_eq!(plain("ab").await.unwrap(), 2);
        assert_eq!(plain("abc").await.unwrap(), 3);
        assert_eq!(refused(plain("abcd").await), Some(Reason::Limited));
    })
    .await;
}

#[allow(clippy::needless_lifetimes, reason = "a lifetime with a name")]
#[rate_limit(key = "generic:{id}:{N}", rate = 1, per = "1h", wait = "none")]
async fn generic<'a, T, const N: usize>(
    id: u64,
    text: &'a str,
    value: T,
) -> Result<(&'a str, [T; N]), Rejection>
where
    T: Copy + Send + Sync,
{
    Ok((text, [value; N]))
}

#[tokio::test]
async fn generics_lifetimes_and_bounds() {
    alone(async {
        assert_eq!(generic::<_, 2>(1, "a", 'x').await.unwrap(), ("a", ['x', 'x']));
        assert_eq!(
            refused(generic::<_, 2>(1, "a", 0.5).await),
            Some(Reason::Limited),
            "one limit for all types"
        );
        assert_eq!(
            generic::<_, 1>(1, "a", 'x').await.unwrap(),
            ("a", ['x']),
            "the constant is in the key"
        );
    })
    .await;
}

struct Order {
    tenant: (u64, String),
    r#type: u8,
}

fn order(tenant: u64, name: &str) -> Order {
    Order { tenant: (tenant, name.to_owned()), r#type: 1 }
}

#[rate_limit(key = "patterns:{id}:{name}:{last}", rate = 1, per = "1h", wait = "none")]
async fn patterns(
    (id, _): (u64, bool),
    Order { tenant: (_, name), .. }: Order,
    [.., last]: [u8; 3],
    mut text: String,
    _: f32,
) -> Result<String, Rejection> {
    text.push_str(&name);
    Ok(format!("{id} {text} {last}"))
}

#[tokio::test]
async fn patterns_for_parameters() {
    alone(async {
        let call =
            |id, last| patterns((id, true), order(7, "acme"), [1, 2, last], "of ".to_owned(), 0.5);
        assert_eq!(call(1, 3).await.unwrap(), "1 of acme 3".to_owned());
        assert_eq!(refused(call(1, 3).await), Some(Reason::Limited));
        assert_eq!(call(1, 4).await.unwrap(), "1 of acme 4".to_owned());
    })
    .await;
}

#[rate_limit(
    key = "fields:{order.tenant.0}:{order.tenant.1}:{order.type}",
    rate = 1,
    per = "1h",
    wait = "none"
)]
async fn fields(order: Order) -> Result<Order, Rejection> {
    Ok(order)
}

#[tokio::test]
async fn fields_of_a_parameter_that_the_body_moves() {
    alone(async {
        assert!(fields(order(1, "a")).await.is_ok());
        assert!(fields(order(1, "b")).await.is_ok());
        assert_eq!(refused(fields(order(1, "a")).await), Some(Reason::Limited));
    })
    .await;
}

#[rate_limit(key = "impl:{name}", rate = 1, per = "1h")]
async fn with_impl_trait(name: &str, value: impl Display + Send) -> impl Iterator<Item = String> {
    [name.to_owned(), value.to_string()].into_iter()
}

#[rate_limit(key = "impl-result", rate = 1, per = "1h", wait = "none")]
async fn impl_trait_in_a_result() -> Result<impl Iterator<Item = u8>, Rejection> {
    Ok([1, 2].into_iter())
}

#[tokio::test]
async fn impl_trait_as_argument_and_result() {
    alone(async {
        assert_eq!(with_impl_trait("n", 0.5).await.collect::<Vec<_>>(), ["n", "0.5"]);
        assert_eq!(impl_trait_in_a_result().await.unwrap().sum::<u8>(), 3);
        assert_eq!(refused(impl_trait_in_a_result().await), Some(Reason::Limited));
    })
    .await;
}

#[derive(Debug, PartialEq)]
enum ShopError {
    Busy,
    Empty,
}

impl From<Rejection> for ShopError {
    fn from(_: Rejection) -> Self {
        Self::Busy
    }
}

#[rate_limit(key = "ways-out", rate = 3, per = "1h", wait = "none")]
async fn ways_out(text: &str) -> Result<u32, ShopError> {
    #![allow(clippy::needless_pass_by_value, reason = "an inner attribute")]
    if text == "early" {
        return Ok(1);
    }
    let number = text.parse::<u32>().map_err(|_| ShopError::Empty)?;
    Ok(number)
}

#[tokio::test]
async fn return_and_question_mark_leave_the_function() {
    alone(async {
        assert_eq!(ways_out("early").await.unwrap(), 1);
        assert_eq!(ways_out("x").await, Err(ShopError::Empty));
        assert_eq!(ways_out("7").await.unwrap(), 7);
        assert_eq!(ways_out("7").await, Err(ShopError::Busy));
    })
    .await;
}

static RUNS: AtomicU32 = AtomicU32::new(0);

#[rate_limit(key = "body", rate = 1, per = "1h")]
async fn body() {
    RUNS.fetch_add(1, Ordering::Relaxed);
    tokio::task::yield_now().await;
}

#[tokio::test(start_paused = true)]
async fn the_body_runs_once_and_not_before_its_permit() {
    alone(async {
        body().await;
        assert_eq!(RUNS.load(Ordering::Relaxed), 1);

        let mut second = Box::pin(body());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(second.as_mut().poll(&mut context), Poll::Pending);
        tokio::time::advance(Duration::from_secs(3000)).await;
        assert_eq!(second.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(RUNS.load(Ordering::Relaxed), 1, "an hour is not over");

        second.await;
        assert_eq!(RUNS.load(Ordering::Relaxed), 2);
    })
    .await;
}

#[rate_limit(key = "first:{user}", rate = 1, per = "1h", wait = "none")]
#[rate_limit(key = "second", rate = 2, per = "1h", wait = "none", fallback = nobody)]
async fn stacked(user: u64) -> Result<u64, Rejection> {
    Ok(user)
}

fn nobody(rejection: Rejection) -> Result<u64, Rejection> {
    if rejection.retry_after().is_some() { Ok(0) } else { Err(rejection) }
}

#[tokio::test]
async fn two_limits_on_one_function() {
    alone(async {
        assert_eq!(stacked(1).await.unwrap(), 1);
        assert_eq!(
            refused(stacked(1).await),
            Some(Reason::Limited),
            "by the upper one, before the lower one"
        );
        assert_eq!(stacked(2).await.unwrap(), 2, "which has a permit left");
        assert_eq!(stacked(3).await.unwrap(), 0, "by the lower one, whose fallback answers");
        assert_eq!(stacked(3).await.unwrap(), 0, "and the upper one has its permit back");
    })
    .await;
}

#[test]
fn futures_can_be_sent_when_the_body_can() {
    fn sent<T: Send>(_: &T) {}
    sent(&plain("a"));
    sent(&patterns((1, true), order(1, "a"), [1, 2, 3], String::new(), 0.5));
    sent(&fields(order(1, "a")));
    sent(&with_impl_trait("a", 1));
    sent(&stacked(1));
}

macro_rules! limited {
    ($(#[$attribute:meta])* $name:ident($argument:ident), $key:literal, $rate:expr, $per:literal) => {
        $(#[$attribute])*
        #[rate_limit(key = $key, rate = $rate, per = $per, wait = "none")]
        async fn $name($argument: u64) -> Result<u64, Rejection> {
            Ok($argument)
        }
    };
}

limited!(
    /// Written by a macro of the user's.
    from_a_macro(user),
    "macro:{user}",
    1,
    "1h"
);

#[tokio::test]
async fn arguments_that_came_through_a_macro() {
    alone(async {
        assert_eq!(from_a_macro(1).await.unwrap(), 1);
        assert_eq!(refused(from_a_macro(1).await), Some(Reason::Limited));
        assert_eq!(from_a_macro(2).await.unwrap(), 2);
    })
    .await;
}
