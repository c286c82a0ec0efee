//! `refund_on`: a call that fails gives its permits back.

use std::time::Duration;

use ratelimit_runtime::{
    Limits, Quota, RateChange, Reason, Rejection, Settings, limiter, rate_limit,
    test_util::ManualClock,
};
use tests::{proxy::Proxy, redis_server::RedisServer};

use super::{SECOND, embedded, free, on_redis, settled_at};

#[derive(Debug, PartialEq)]
enum Error {
    Failed,
    Refused(Reason),
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        Self::Refused(rejection.reason())
    }
}

const REFUSED: Result<u32, Error> = Err(Error::Refused(Reason::Limited));

#[rate_limit(key = "refund", rate = 10, per = "1h", wait = "none", permits = 2, refund_on = "err")]
async fn charge_card(attempt: u32, fails: bool) -> Result<u32, Error> {
    if fails {
        return Err(Error::Failed);
    }
    Ok(attempt)
}

async fn only_successes_count(limits: &Limits) {
    let limiter = limits.scope(async { limiter!("refund") }).await;
    for attempt in 1..=50 {
        let fails = attempt % 10 != 0;
        let result = limits.scope(charge_card(attempt, fails)).await;
        assert_eq!(result, if fails { Err(Error::Failed) } else { Ok(attempt) });
        settled_at(&limiter, 10 - u64::from(attempt / 10) * 2).await;
    }
    for fails in [true, false] {
        assert_eq!(limits.scope(charge_card(0, fails)).await, REFUSED);
    }
    assert_eq!(free(&limiter).await, 0, "a refusal took nothing and gives nothing back");
}

#[tokio::test]
async fn of_calls_that_fail_nine_times_in_ten_only_the_successes_count() {
    let server = RedisServer::start();
    for rule in ["sliding_window", "token_bucket", "fixed_window"] {
        let yaml = format!("limiters:\n  refund: {{ algorithm: {rule} }}\n");
        only_successes_count(&embedded(&yaml).build().await.unwrap()).await;
        only_successes_count(&on_redis(&server, &yaml).build().await.unwrap()).await;
        server.cli::<()>(&["FLUSHALL"]);
    }
    let yaml = "limiters:\n  refund: { mode: per_client }\n";
    only_successes_count(&embedded(yaml).build().await.unwrap()).await;
    only_successes_count(&on_redis(&server, yaml).build().await.unwrap()).await;
}

#[tokio::test]
async fn a_failed_call_gives_its_own_permits_back() {
    let clock = ManualClock::new();
    let yaml = "limiters:\n  refund: { rate: 4, per: 10s }\n";
    let limits = embedded(yaml).clock(clock.clone()).build().await.unwrap();
    let limiter = limits.scope(async { limiter!("refund") }).await;
    limits.scope(charge_card(1, false)).await.unwrap();
    clock.advance(9 * SECOND);
    limits.scope(charge_card(2, true)).await.unwrap_err();
    assert_eq!(free(&limiter).await, 2, "in use are those of the first call");
    clock.advance(SECOND);
    assert_eq!(free(&limiter).await, 4);
}

#[tokio::test]
async fn the_limits_file_turns_it_off() {
    let yaml = "limiters:\n  refund: { refund_on: never }\n";
    let limits = embedded(yaml).build().await.unwrap();
    for left in [8, 6] {
        limits.scope(charge_card(0, true)).await.unwrap_err();
        let limiter = limits.scope(async { limiter!("refund") }).await;
        assert_eq!(free(&limiter).await, left);
    }
    let report = limits.report();
    let limiter = report.limiter("refund").unwrap();
    assert_eq!(limiter.setting("refund_on").unwrap().value, "never");
    assert!(report.to_string().contains("refund_on: never (limits file)"), "{report}");
}

#[rate_limit(key = "refund-ready", rate = 3, per = "1h", wait = "none", refund_on = "never")]
#[rate_limit(key = "refund-not", rate = 3, per = "1h", wait = "none")]
async fn ready(fails: bool) -> Result<(), Error> {
    if fails { Err(Error::Failed) } else { Ok(()) }
}

#[tokio::test]
async fn the_limits_file_turns_it_on_where_the_attribute_has_a_word_of_it() {
    let limits = embedded("limiters:\n  refund-ready: { refund_on: err }\n").build().await.unwrap();
    let (ready_one, other) =
        limits.scope(async { (limiter!("refund-ready"), limiter!("refund-not")) }).await;
    for left in [2, 1, 0] {
        assert_eq!(limits.scope(ready(true)).await, Err(Error::Failed));
        assert_eq!((free(&ready_one).await, free(&other).await), (3, left));
    }
    assert_eq!(limits.scope(ready(true)).await, Err(Error::Refused(Reason::Limited)));
    assert_eq!(free(&ready_one).await, 3, "given back for the refusal of the other");

    let error =
        embedded("limiters:\n  refund-not: { refund_on: err }\n").build().await.unwrap_err();
    let [problem] = error.problems() else { panic!("one problem, not {error}") };
    assert!(
        problem.to_string().ends_with(
            "`refund-not` is compiled without refunds, but limits:2:28 sets `refund_on: err`; write \
             `refund_on = \"err\"` in its attribute, or remove `refund_on`"
        ),
        "{problem}"
    );
}

#[rate_limit(key = "refund-panic", rate = 3, per = "1h", wait = "none", refund_on = "err")]
async fn panics_or_hangs(panics: bool) -> Result<(), Rejection> {
    assert!(!panics, "as it was told");
    std::future::pending().await
}

#[tokio::test]
async fn a_panic_and_a_dropped_body_keep_their_permits() {
    let limits = embedded("").build().await.unwrap();
    let limiter = limits.scope(async { limiter!("refund-panic") }).await;
    let task = tokio::spawn({
        let limits = limits.clone();
        async move { limits.scope(panics_or_hangs(true)).await }
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(free(&limiter).await, 2);
    let call = limits.scope(panics_or_hangs(false));
    tokio::time::timeout(Duration::from_millis(10), call).await.unwrap_err();
    assert_eq!(free(&limiter).await, 1);
}

#[tokio::test]
async fn whoever_waits_goes_when_a_failed_call_gives_its_permits_back() {
    let yaml = "limiters:\n  refund: { rate: 2 }\n";
    let limits = embedded(yaml).build().await.unwrap();
    let limiter = limits.scope(async { limiter!("refund") }).await;
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move {
            tokio::task::yield_now().await;
            limiter.acquire(2).await
        }
    });
    for _ in 0..100 {
        assert_ne!(limits.scope(charge_card(1, true)).await, Ok(1));
        tokio::task::yield_now().await;
    }
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_does_not_fail_the_call() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let builder = Limits::builder().redis(proxy.url()).no_limits_file();
    let limits = builder.deadline(Duration::from_millis(500)).build().await.unwrap();
    let limiter = limits.scope(async { limiter!("refund") }).await;
    limits.scope(charge_card(1, true)).await.unwrap_err();
    settled_at(&limiter, 10).await;
    proxy.cut();
    for _ in 0..20 {
        // Counted by this process's share, and given back to it.
        assert_eq!(limits.scope(charge_card(1, true)).await, Err(Error::Failed));
    }
    proxy.restore();
    let mut free_again = limiter.available_permits().await;
    while free_again.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
        free_again = limiter.available_permits().await;
    }
    assert_eq!(free_again.unwrap(), 10);
}

#[tokio::test]
async fn permits_that_are_given_back_pay_the_debt_at_once() {
    // The debt of a sliding window was only paid by the next call, as of then.
    let server = RedisServer::start();
    let clock = ManualClock::new();
    for (builder, clock) in
        [(embedded("").clock(clock.clone()), Some(clock)), (on_redis(&server, ""), None)]
    {
        let limits = builder.build().await.unwrap();
        let pass = async |time: Duration| match &clock {
            Some(clock) => clock.advance(time),
            None => tokio::time::sleep(time).await,
        };
        let per = SECOND / 2;
        let limiter = limits.limiter("x", Quota::new(3, per).unwrap());
        let permit = limiter.acquire(3).await.unwrap();
        assert_eq!(limiter.charge(2).await.unwrap().debt, 2);
        assert_eq!(permit.give_back().await.unwrap(), 3);
        assert_eq!(free(&limiter).await, 1);
        pass(per).await;
        assert_eq!(free(&limiter).await, 3, "it was paid a window ago");
        limiter.try_acquire(3).await.unwrap();
    }
}

#[tokio::test]
async fn permits_of_a_higher_rate_pay_the_debt_at_once() {
    // Of 2 owed permits, a sliding window paid one in each window.
    let server = RedisServer::start();
    let clock = ManualClock::new();
    for (builder, clock) in
        [(embedded("").clock(clock.clone()), Some(clock)), (on_redis(&server, ""), None)]
    {
        let limits = builder.build().await.unwrap();
        let (per, higher) = (SECOND / 2, Quota::new(5, SECOND / 2).unwrap());
        let limiter = limits.limiter("y", Settings::new(Quota::new(1, per).unwrap()).max_debt(2));
        assert_eq!(limiter.charge(3).await.unwrap().debt, 2);
        limiter.update_rate(RateChange::new(higher).carry()).await.unwrap();
        match &clock {
            Some(clock) => clock.advance(per),
            None => tokio::time::sleep(per).await,
        }
        assert_eq!(free(&limiter).await, 5);
    }
}
