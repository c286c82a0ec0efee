//! Several attributes on one function: all of them or none, in the order they are written.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

use std::time::Duration;

use ratelimit_runtime::{
    Limiter, Limits, LimitsBuilder, Reason, Rejection, limiter, rate_limit, test_util::ManualClock,
};
use tests::{proxy::Proxy, redis_server::RedisServer, soon};
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn embedded() -> LimitsBuilder {
    Limits::builder().memory().no_limits_file()
}

fn on_redis(url: &str) -> LimitsBuilder {
    Limits::builder().redis(url).no_limits_file().deadline(Duration::from_secs(20))
}

async fn free(limiter: &Limiter) -> u64 {
    limiter.available_permits().await.unwrap()
}

fn refused_by(result: Result<(), Rejection>) -> (Reason, String) {
    let rejection = result.unwrap_err();
    (rejection.reason(), rejection.limiter().to_owned())
}

#[rate_limit(key = "stacked-user:{user}", rate = 5, per = "1h", wait = "none", permits = 2)]
#[ratelimit_runtime::rate_limit(key = "stacked-all", rate = 3, per = "1h", wait = "none", skip_if = user == 0)]
async fn for_a_user(user: u64) -> Result<(), Rejection> {
    Ok(())
}

async fn what_the_first_took_comes_back(limits: &Limits) {
    limits
        .scope(async {
            let everybody = limiter!("stacked-all");
            for user in 1..4 {
                for_a_user(user).await.unwrap();
            }
            for user in 2..6 {
                let own = limiter!("stacked-user:{user}", user = user);
                let before = free(&own).await;
                for _ in 0..10 {
                    let (reason, by) = refused_by(for_a_user(user).await);
                    assert_eq!((reason, &*by), (Reason::Limited, "stacked-all"));
                    assert_eq!(free(&own).await, before, "of user {user}");
                }
            }
            // One that is skipped neither refuses nor takes.
            assert!(for_a_user(0).await.is_ok() && for_a_user(0).await.is_ok());
            let (_, by) = refused_by(for_a_user(0).await);
            assert_eq!((&*by, free(&everybody).await), ("stacked-user:{user}", 0));
        })
        .await;
}

#[tokio::test]
async fn a_refusal_by_the_second_gives_back_what_the_first_took() {
    let server = RedisServer::start();
    what_the_first_took_comes_back(&embedded().build().await.unwrap()).await;
    what_the_first_took_comes_back(&on_redis(&server.url()).build().await.unwrap()).await;
}

#[rate_limit(key = "stacked-1", rate = 1, per = "1h", wait = "none", fallback = one)]
#[rate_limit(key = "stacked-2", rate = 2, per = "1h", wait = "none", fallback = two)]
#[rate_limit(key = "stacked-3", rate = 9, per = "1h")]
#[rate_limit(key = "stacked-4", rate = 9, per = "1h", permits = cost, fallback = four)]
async fn with_a_way_out_each(cost: u64) -> (u8, Option<Reason>) {
    (0, None)
}

fn one(rejection: Rejection) -> (u8, Option<Reason>) {
    (1, Some(rejection.reason()))
}

async fn two(rejection: Rejection) -> (u8, Option<Reason>) {
    (2, Some(rejection.reason()))
}

fn four(rejection: Rejection) -> (u8, Option<Reason>) {
    (4, Some(rejection.reason()))
}

#[tokio::test]
async fn each_refuses_by_its_own_way_out() {
    let limits = embedded().build().await.unwrap();
    limits
        .scope(async {
            let left = async || {
                let limiters =
                    [limiter!("stacked-1"), limiter!("stacked-2"), limiter!("stacked-3")];
                let mut left = Vec::new();
                for limiter in &limiters {
                    left.push(free(limiter).await);
                }
                left
            };
            assert_eq!(with_a_way_out_each(10).await, (4, Some(Reason::ExceedsCapacity)));
            assert_eq!(left().await, [1, 2, 9]);
            assert_eq!(with_a_way_out_each(9).await, (0, None));
            assert_eq!(with_a_way_out_each(1).await, (1, Some(Reason::Limited)));
            assert_eq!(left().await, [0, 1, 8]);
            limiter!("stacked-1").delete().await.unwrap();
            limiter!("stacked-2").acquire(1).await.unwrap();
            assert_eq!(with_a_way_out_each(1).await, (2, Some(Reason::Limited)));
            assert_eq!(left().await, [1, 0, 8]);
        })
        .await;
}

#[rate_limit(key = "stacked-before", rate = 2, per = "1h", wait = "none")]
#[rate_limit(key = "stacked-slow", rate = 1, per = "10s")]
async fn waits_for_the_second() -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn a_call_that_waits_for_the_second_holds_nothing_of_the_first() {
    let clock = ManualClock::new();
    let limits = embedded().clock(clock.clone()).build().await.unwrap();
    let before = limits.scope(async { limiter!("stacked-before") }).await;
    limits.scope(waits_for_the_second()).await.unwrap();
    let waiter = tokio::spawn({
        let limits = limits.clone();
        async move { limits.scope(waits_for_the_second()).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiter.is_finished(), "it waits for the second");
    assert_eq!(free(&before).await, 1);
    clock.advance(10 * SECOND);
    waiter.await.unwrap().unwrap();
    assert_eq!(free(&before).await, 0);
    assert_eq!(refused_by(limits.scope(waits_for_the_second()).await).1, "stacked-before");
}

async fn a_dropped_call_gives_back(limits: &Limits) {
    let before = limits.scope(async { limiter!("stacked-before") }).await;
    limits.scope(waits_for_the_second()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(free(&before).await, 1);
        let waiting = limits.scope(waits_for_the_second());
        timeout(Duration::from_millis(30), waiting).await.expect_err("it waits for the second");
        soon("the first is given back", async || free(&before).await == 1).await;
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_while_it_waits_gives_back_what_it_took() {
    let server = RedisServer::start();
    a_dropped_call_gives_back(&embedded().build().await.unwrap()).await;
    a_dropped_call_gives_back(&on_redis(&server.url()).build().await.unwrap()).await;
}

#[test]
fn a_call_that_is_dropped_outside_any_runtime_gives_back_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = ManualClock::new();
    let limits = runtime.block_on(embedded().clock(clock.clone()).build()).unwrap();
    let before = runtime.block_on(limits.scope(async { limiter!("stacked-before") }));
    let mut waiting = Box::pin(limits.scope(waits_for_the_second()));
    runtime.block_on(limits.scope(waits_for_the_second())).unwrap();
    runtime.block_on(async {
        let poll = timeout(Duration::from_millis(20), waiting.as_mut());
        poll.await.expect_err("it waits for the second");
        clock.advance(10 * SECOND);
        soon("the first is taken", async || free(&before).await == 0).await;
    });
    drop(waiting);
    assert_eq!(runtime.block_on(free(&before)), 1, "it never looked at its permits");
}

#[rate_limit(key = "stacked-patient", rate = 1, per = "10s", wait = "1m")]
#[rate_limit(key = "stacked-impatient", rate = 1, per = "1h", wait = "5s")]
async fn waits_for_both() -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test]
async fn each_waits_as_long_as_it_says() {
    let clock = ManualClock::new();
    let limits = embedded().clock(clock.clone()).build().await.unwrap();
    let patient = limits.scope(async { limiter!("stacked-patient") }).await;
    limits.scope(waits_for_both()).await.unwrap();
    for left in [0, 1] {
        // No wait for the first could make up for that of the second.
        let (reason, by) = refused_by(limits.scope(waits_for_both()).await);
        assert_eq!((reason, &*by), (Reason::WaitTooLong, "stacked-impatient"));
        assert_eq!(free(&patient).await, left);
        clock.advance(10 * SECOND);
    }
    limits.scope(async { limiter!("stacked-impatient") }).await.delete().await.unwrap();
    limits.scope(waits_for_both()).await.unwrap();
    limits.scope(async { limiter!("stacked-impatient") }).await.delete().await.unwrap();
    let waiter = tokio::spawn({
        let limits = limits.clone();
        async move { limits.scope(waits_for_both()).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiter.is_finished(), "it waits for the first");
    clock.advance(10 * SECOND);
    waiter.await.unwrap().unwrap();
}

#[rate_limit(key = "stacked-here", rate = 3, per = "1h", wait = "none", mode = "per_client")]
#[rate_limit(key = "stacked-there", rate = 9, per = "1h", wait = "none", on_store_error = "reject")]
async fn needs_the_store() -> Result<(), Rejection> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_is_a_refusal_like_any_other() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = on_redis(&proxy.url()).deadline(Duration::from_millis(500)).build().await.unwrap();
    limits
        .scope(async {
            needs_the_store().await.unwrap();
            proxy.cut();
            for _ in 0..10 {
                let (reason, by) = refused_by(needs_the_store().await);
                assert_eq!((reason, &*by), (Reason::StoreUnavailable, "stacked-there"));
            }
            proxy.restore();
            let call = async || needs_the_store().await.is_ok();
            soon("the store is there again", call).await;
            assert!(needs_the_store().await.is_ok(), "the third of the first one");
            assert_eq!(refused_by(needs_the_store().await).1, "stacked-here");
        })
        .await;
}

#[rate_limit(key = "stacked-quiet-1", rate = 1, per = "10s")]
#[rate_limit(key = "stacked-quiet-2", rate = 1, per = "1m")]
async fn refuses_nobody() -> u8 {
    7
}

#[tokio::test]
async fn a_function_that_cannot_refuse_waits_for_each_in_turn() {
    let clock = ManualClock::new();
    let limits = embedded().clock(clock.clone()).build().await.unwrap();
    assert_eq!(limits.scope(refuses_nobody()).await, 7);
    let waiter = tokio::spawn({
        let limits = limits.clone();
        async move { limits.scope(refuses_nobody()).await }
    });
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!waiter.is_finished());
        clock.advance(10 * SECOND);
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!waiter.is_finished(), "50 s of a minute");
    clock.advance(10 * SECOND);
    assert_eq!(timeout(HOUR, waiter).await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn what_no_limit_counted_is_not_given_back() {
    let limits = async |first: &str| {
        let yaml = format!(
            "limiters:\n  stacked-patient: {{ {first} }}\n  stacked-impatient: {{ wait: none }}\n"
        );
        Limits::builder().memory().limits_yaml(yaml).build().await.unwrap()
    };
    let shadowed = limits("shadow: true").await;
    let patient = shadowed.scope(async { limiter!("stacked-patient") }).await;
    shadowed.scope(waits_for_both()).await.unwrap();
    for _ in 0..3 {
        // Let through without a permit, so there is none to give back.
        assert_eq!(refused_by(shadowed.scope(waits_for_both()).await).1, "stacked-impatient");
        assert_eq!(free(&patient).await, 0);
    }
    let disabled = limits("enabled: false").await;
    disabled.scope(waits_for_both()).await.unwrap();
    assert_eq!(refused_by(disabled.scope(waits_for_both()).await).1, "stacked-impatient");
}

#[rate_limit(key = "stacked-broken", rate = 1, per = "1h")]
#[ratelimit_runtime::rate_limit(key = "stacked-full", rate = 1, per = "1h")]
async fn that_cannot_be_rejected() {}

#[rate_limit(key = "stacked-broken", rate = 1, per = "1h")]
async fn broken() {}

/// A function that cannot be rejected counts a limiter whose store is misconfigured by itself.
#[tokio::test]
async fn a_dropped_call_leaves_what_it_took_without_the_store() {
    let server = RedisServer::start();
    let limits = on_redis(&server.url()).build().await.unwrap();
    let _: () = server.cli(&["SET", "stacked-broken", "of another program"]);
    limits
        .scope(async {
            limiter!("stacked-full").acquire(1).await.unwrap();
            timeout(SECOND / 2, that_cannot_be_rejected()).await.unwrap_err();
            timeout(5 * SECOND, broken()).await.unwrap();
        })
        .await;
}

#[rate_limit(key = "stacked-unneeded", rate = 1, per = "1s", algorithm = "token_bucket", burst = 1, permits = cost)]
#[ratelimit_runtime::rate_limit(key = "stacked-unwaited", rate = 1000, per = "1s", wait = "none")]
#[ratelimit_runtime::rate_limit(key = "stacked-soon", rate = 1000, per = "1s", wait = "10ms")]
#[ratelimit_runtime::rate_limit(
    key = "stacked-busy-1",
    rate = 10,
    per = "1s",
    algorithm = "leaky_bucket"
)]
#[ratelimit_runtime::rate_limit(
    key = "stacked-busy-2",
    rate = 10,
    per = "1s",
    algorithm = "leaky_bucket"
)]
async fn of_two_busy_ones(cost: u64) -> Result<(), Rejection> {
    Ok(())
}

/// A call that takes from one limiter after the other was rejected by those for which it does not wait, and waited for
/// one that it needs no permits of.
#[tokio::test(start_paused = true)]
async fn a_call_queues_only_where_it_waits() {
    let limits = embedded().build().await.unwrap();
    let mut others = tokio::task::JoinSet::new();
    limits
        .scope(async {
            let unneeded = limiter!("stacked-unneeded");
            let busy = [limiter!("stacked-busy-1"), limiter!("stacked-busy-2")];
            let each = busy.into_iter().cycle().take(6);
            for limiter in each.chain(std::iter::repeat_n(unneeded, 5)) {
                others.spawn(async move {
                    loop {
                        limiter.acquire(1).await.unwrap();
                    }
                });
            }
            tokio::time::sleep(SECOND).await;
            for _ in 0..5 {
                timeout(3 * SECOND, of_two_busy_ones(0)).await.unwrap().unwrap();
            }
        })
        .await;
}

#[rate_limit(key = "stacked-held-1", rate = 1, per = "300ms")]
#[rate_limit(key = "stacked-held-2", rate = 1, per = "300ms")]
#[rate_limit(key = "stacked-last", rate = 1, per = "300ms", wait = "1s")]
async fn takes_the_last_at_the_end() -> Result<(), Rejection> {
    Ok(())
}

/// How a call is rejected that holds permits of two limiters after 1170 ms, and takes from the last one then. Before,
/// this many others wait for that.
async fn rejected_by_the_last(yaml: &str, waiting: usize) -> Rejection {
    let limits = Limits::builder().memory().limits_yaml(yaml).build().await.unwrap();
    let call = limits.scope(async {
        let [first, second, last] =
            [limiter!("stacked-held-1"), limiter!("stacked-held-2"), limiter!("stacked-last")];
        first.try_acquire(1).await.unwrap();
        let call = async {
            for limiter in [&second, &first, &second] {
                tokio::time::sleep(Duration::from_millis(290)).await;
                limiter.try_acquire(1).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(240)).await;
            last.try_acquire(1).await.unwrap();
            let mut others = tokio::task::JoinSet::new();
            for _ in 0..waiting {
                let last = last.clone();
                others.spawn(async move { last.acquire(1).await.is_ok() });
            }
            others.join_all().await
        };
        tokio::join!(takes_the_last_at_the_end(), call).0
    });
    call.await.unwrap_err()
}

/// A call behind others that waited was asked to retry after 1 ms.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_says_when_those_ahead_are_served() {
    let rejection = rejected_by_the_last("limiters: {}", 3).await;
    assert_eq!((rejection.reason(), rejection.limiter()), (Reason::WaitTooLong, "stacked-last"));
    // The fourth after 1110 ms, 1170 ms after the start.
    let after = rejection.retry_after().unwrap();
    assert!((1_130..=1_150).contains(&after.as_millis()), "{after:?}");
}

/// The wait was said to be too long, though it was shorter than the call may wait.
#[tokio::test(start_paused = true)]
async fn a_call_that_may_not_wait_finds_the_queue_full() {
    let yaml = "limiters:\n  stacked-last: { wait: 10s, max_waiters: 0 }\n";
    let rejection = rejected_by_the_last(yaml, 0).await;
    assert_eq!((rejection.reason(), rejection.limiter()), (Reason::QueueFull, "stacked-last"));
}
