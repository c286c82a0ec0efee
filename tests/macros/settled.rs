//! Functions whose result is read before it leaves them: every shape that `refund_on` has to keep.

use std::fmt::Display;
use std::sync::{Arc, Mutex};

use ratelimit_runtime::{Limits, Reason, Rejection, limiter, rate_limit};

use super::{alone, limits, refused};

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

impl From<std::num::ParseIntError> for ShopError {
    fn from(_: std::num::ParseIntError) -> Self {
        Self::Empty
    }
}

#[rate_limit(key = "settled-ways-out", rate = 1, per = "1h", wait = "none", refund_on = "err")]
async fn ways_out(text: &str) -> Result<&str, ShopError> {
    if text == "early" {
        return Err(ShopError::Empty);
    }
    tokio::task::yield_now().await;
    let _: u32 = text.parse()?;
    Ok(text)
}

#[tokio::test]
async fn return_and_question_mark_give_permits_back() {
    alone(async {
        for _ in 0..5 {
            assert_eq!(ways_out("early").await, Err(ShopError::Empty));
            assert_eq!(ways_out("x").await, Err(ShopError::Empty));
        }
        assert_eq!(ways_out("7").await.unwrap(), "7");
        assert_eq!(ways_out("early").await, Err(ShopError::Busy), "a success is counted");
    })
    .await;
}

#[allow(clippy::needless_lifetimes, reason = "a lifetime with a name")]
#[rate_limit(
    key = "settled-generic:{id}:{N}",
    rate = 1,
    per = "1h",
    wait = "none",
    refund_on = "err"
)]
async fn generic<'a, T, const N: usize>(
    id: u64,
    text: &'a mut String,
    (value, _): (T, u8),
    shown: impl Display + Send,
) -> Result<(&'a str, [T; N]), Rejection>
where
    T: Copy + Send + Sync,
{
    #![allow(clippy::needless_pass_by_value, reason = "an inner attribute")]
    text.push_str(&shown.to_string());
    Ok((text, [value; N]))
}

#[tokio::test]
async fn generics_borrows_patterns_and_bounds() {
    alone(async {
        let mut text = "a".to_owned();
        assert_eq!(generic::<_, 2>(1, &mut text, ('x', 0), 7).await.unwrap(), ("a7", ['x', 'x']));
        assert_eq!(
            refused(generic::<_, 2>(1, &mut text, (0.5, 0), "b").await),
            Some(Reason::Limited)
        );
        assert_eq!(generic::<_, 0>(1, &mut text, (0.5, 0), "b").await.unwrap(), ("a7b", []));
    })
    .await;
}

struct Shop {
    name: String,
}

impl Shop {
    #[rate_limit(
        key = "settled-method:{self.name}",
        rate = 1,
        per = "1h",
        wait = "none",
        refund_on = "err"
    )]
    async fn by_mutable_reference(&mut self, fails: bool) -> Result<&str, ShopError> {
        self.name.push('!');
        self.name.pop();
        if fails { Err(ShopError::Empty) } else { Ok(&self.name) }
    }

    #[rate_limit(
        key = "settled-arc:{self.name}",
        rate = 1,
        per = "1h",
        wait = "none",
        refund_on = "err"
    )]
    async fn by_arc(self: Arc<Self>, fails: bool) -> Result<usize, ShopError> {
        if fails { Err(ShopError::Empty) } else { Ok(Arc::strong_count(&self)) }
    }
}

#[async_trait::async_trait]
trait Ledger: Send + Sync {
    async fn append(&self, (text, _): (String, u8), fails: bool) -> Result<String, ShopError>;
}

#[async_trait::async_trait]
impl Ledger for Shop {
    #[rate_limit(
        key = "settled-boxed:{self.name}:{text}",
        rate = 1,
        per = "1h",
        wait = "none",
        refund_on = "err"
    )]
    #[rate_limit(key = "settled-boxed", rate = 2, per = "1h", wait = "none", refund_on = "err")]
    async fn append(&self, (text, _): (String, u8), fails: bool) -> Result<String, ShopError> {
        if fails {
            return Err(ShopError::Empty);
        }
        let length: usize = text.len().to_string().parse()?;
        Ok(format!("{} {text} {length}", self.name))
    }
}

#[tokio::test]
async fn methods_of_every_kind() {
    alone(async {
        let mut shop = Shop { name: "acme".to_owned() };
        for _ in 0..3 {
            assert_eq!(shop.by_mutable_reference(true).await, Err(ShopError::Empty));
        }
        assert_eq!(shop.by_mutable_reference(false).await.unwrap(), "acme");
        assert_eq!(shop.by_mutable_reference(false).await, Err(ShopError::Busy));

        for _ in 0..3 {
            assert_eq!(shop.append(("x".to_owned(), 1), true).await, Err(ShopError::Empty));
        }
        assert_eq!(shop.append(("x".to_owned(), 1), false).await.unwrap(), "acme x 1".to_owned());
        for _ in 0..3 {
            assert_eq!(shop.append(("x".to_owned(), 1), true).await, Err(ShopError::Busy));
        }
        assert_eq!(shop.append(("yy".to_owned(), 1), false).await.unwrap(), "acme yy 2".to_owned());
        assert_eq!(shop.append(("z".to_owned(), 1), false).await, Err(ShopError::Busy));

        let shop = Arc::new(shop);
        for _ in 0..3 {
            assert_eq!(Arc::clone(&shop).by_arc(true).await, Err(ShopError::Empty));
        }
        assert_eq!(Arc::clone(&shop).by_arc(false).await.unwrap(), 2);
        assert_eq!(shop.by_arc(false).await, Err(ShopError::Busy));
    })
    .await;
}

#[derive(Debug, PartialEq)]
struct Status(u16);

impl Status {
    fn is_failure(&self) -> bool {
        self.0 >= 500
    }
}

#[rate_limit(key = "settled-own", rate = 1, per = "1h", refund_if = Status::is_failure)]
async fn with_a_type_of_its_own(status: u16) -> Status {
    Status(status)
}

#[tokio::test]
async fn a_function_decides_which_results_are_refunded() {
    let limits = limits().await;
    let free = async |limits: &Limits| {
        let limiter = limits.scope(async { limiter!("settled-own") }).await;
        limiter.available_permits().await.expect("the embedded store answers")
    };
    for (status, left) in [(503, 1), (500, 1), (404, 0)] {
        assert_eq!(limits.scope(with_a_type_of_its_own(status)).await, Status(status));
        assert_eq!(free(&limits).await, left, "after {status}");
    }
}

/// It warns of nothing that it would not warn of without the attribute.
#[rate_limit(key = "settled-lints", rate = 1, per = "1h", wait = "none", refund_on = "err")]
async fn with_unused_parameters(
    #[allow(unused_variables)] unused: u8,
    #[expect(unused_variables)] shop: u8,
    #[cfg_attr(unix, allow(unused_variables))] day: u8,
    _old: u8,
) -> Result<(), Rejection> {
    drop("the shop".to_owned());
    Ok(())
}

#[test]
fn futures_can_be_sent_when_the_body_can() {
    fn sent<T: Send>(_: &T) {}
    sent(&ways_out("a"));
    sent(&generic::<_, 2>(1, &mut String::new(), (0.5, 0), "b"));
    sent(&Shop { name: String::new() }.by_mutable_reference(true));
    sent(&with_a_type_of_its_own(1));
    sent(&with_unused_parameters(1, 2, 3, 4));
}

/// Records its name when it is dropped.
struct Dropped<'a>(&'static str, &'a Mutex<Vec<&'static str>>);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

struct Pair<'a> {
    left: Dropped<'a>,
    right: Dropped<'a>,
}

/// Each function without the attribute, and with it.
macro_rules! plain_and_settled {
    ($($plain:ident, $settled:ident ($($parameters:tt)*) $body:block)*) => {$(
        async fn $plain($($parameters)*) -> Result<(), Rejection> $body

        #[rate_limit(key = "settled-drops", rate = 1000, per = "1h", wait = "none", refund_on = "err")]
        async fn $settled($($parameters)*) -> Result<(), Rejection> $body
    )*};
}

plain_and_settled! {
    by_name, by_name_settled (a: Dropped<'_>, b: Dropped<'_>, _unused: Dropped<'_>) {
        let _ = (&b, &a);
        Ok(())
    }
    by_change, by_change_settled (
        mut a: Dropped<'_>,
        #[cfg(any())] absent: u8,
        mut b: Option<Dropped<'_>>,
        c: Dropped<'_>,
    ) {
        a.0 = "changed";
        drop(b.take());
        drop(c);
        Ok(())
    }
    by_pattern, by_pattern_settled (
        (a, mut b): (Dropped<'_>, Dropped<'_>),
        Pair { left, mut right }: Pair<'_>,
    ) {
        (b.0, right.0) = ("second", "fourth");
        let _ = (&left, &a);
        Ok(())
    }
}

#[tokio::test]
async fn parameters_are_dropped_as_in_a_plain_function() {
    let names = Mutex::default();
    let dropped = |name| Dropped(name, &names);
    let pair = || Pair { left: dropped("c"), right: dropped("d") };
    let taken = || std::mem::take(&mut *names.lock().unwrap());
    alone(async {
        by_name(dropped("a"), dropped("b"), dropped("c")).await.unwrap();
        let plain = taken();
        by_name_settled(dropped("a"), dropped("b"), dropped("c")).await.unwrap();
        assert_eq!(taken(), plain);

        by_change(dropped("a"), Some(dropped("b")), dropped("c")).await.unwrap();
        let plain = taken();
        by_change_settled(dropped("a"), Some(dropped("b")), dropped("c")).await.unwrap();
        assert_eq!(taken(), plain);

        by_pattern((dropped("a"), dropped("b")), pair()).await.unwrap();
        let plain = taken();
        by_pattern_settled((dropped("a"), dropped("b")), pair()).await.unwrap();
        assert_eq!(taken(), plain);
    })
    .await;
}
