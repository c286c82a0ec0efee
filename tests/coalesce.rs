//! Many callers of one limiter: shared calls, refusals that are known beforehand, waiting in turn.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "coalesce/limiters.rs"]
mod limiters;

use std::{
    env,
    time::{Duration, Instant, UNIX_EPOCH},
};

use ratelimit_runtime::{Decision, Limiter, Limits, Permit, Quota, Reason};
use tests::{Random, poll_once, proxy::Proxy, redis_server::RedisServer, window::assert_kept};
use tokio::{task::JoinSet, time::timeout};

const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

fn quota(rate: u32, per: Duration) -> Quota {
    Quota::new(rate.into(), per).unwrap()
}

async fn limits(url: &str) -> Limits {
    let builder = Limits::builder().redis(url).no_limits_file();
    // Long enough that no decision misses it because the machine is busy.
    builder.deadline(20 * SECOND).build().await.unwrap()
}

fn at_ms(decision: &Decision) -> u64 {
    let since = decision.at().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// A limiter that was used already, behind a proxy that holds every answer back.
async fn behind(proxy: &Proxy, rate: u32, delay: Duration) -> Limiter {
    let limiter = limits(&proxy.url()).await.limiter("shared", quota(rate, HOUR));
    limiter.try_acquire(1).await.unwrap();
    proxy.delay(delay);
    limiter
}

/// Starts a call and lets it come as far as it gets.
async fn start(limiter: &Limiter, permits: u32) -> tokio::task::JoinHandle<Option<Permit>> {
    let limiter = limiter.clone();
    let call = tokio::spawn(async move { limiter.try_acquire(permits.into()).await.ok() });
    tokio::time::sleep(Duration::from_millis(2)).await;
    call
}

#[tokio::test]
async fn callers_share_a_call_and_each_is_told_its_own_part() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = behind(&proxy, 601, Duration::from_millis(30)).await;
    let before = server.calls("evalsha");
    let mut calls = Vec::new();
    for _ in 0..500 {
        let limiter = limiter.clone();
        calls.push(tokio::spawn(async move { limiter.try_acquire(1).await.unwrap().remaining() }));
    }
    for (nth, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), 599 - nth as u64, "first come, first served");
    }
    let calls = server.calls("evalsha") - before;
    assert!((2..=12).contains(&calls), "{calls} calls: one each 2 ms at most");
}

#[tokio::test]
async fn costs_are_decided_in_the_order_they_came() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = behind(&proxy, 11, Duration::from_millis(30)).await;
    let mut calls = Vec::new();
    for permits in [1, 4, 6, 5, 1, 20] {
        calls.push(start(&limiter, permits).await);
    }
    let mut remaining = Vec::new();
    for call in calls {
        remaining.push(call.await.unwrap().map(|decision| decision.remaining()));
    }
    assert_eq!(remaining, [Some(9), Some(5), None, Some(0), None, None]);
}

#[tokio::test]
async fn who_is_dropped_in_the_queue_was_never_asked_for() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = behind(&proxy, 101, Duration::from_millis(30)).await;
    let mut calls = [1, 50, 2].map(|permits| Box::pin(limiter.try_acquire(permits)));
    // The others gather behind the first one, whose call leaves with the next await.
    calls.iter_mut().for_each(|call| assert!(poll_once(call.as_mut()).is_none()));
    let [first, dropped, last] = calls;
    drop(dropped);
    assert_eq!(first.await.unwrap().remaining(), 99);
    assert_eq!(last.await.unwrap().remaining(), 97);
}

#[tokio::test]
async fn whoever_calls_for_the_others_may_be_dropped() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = behind(&proxy, 101, Duration::from_millis(30)).await;
    let first = start(&limiter, 10).await;
    let mut others = Vec::new();
    for _ in 0..5 {
        others.push(start(&limiter, 1).await);
    }
    first.abort();
    for (nth, other) in others.into_iter().enumerate() {
        let decision = other.await.unwrap().unwrap();
        assert_eq!(decision.remaining(), 89 - nth as u64, "the call in flight did count");
    }
}

#[tokio::test]
async fn a_runtime_that_ends_takes_nobody_else_along() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limiter = behind(&proxy, 101, Duration::from_millis(50)).await;
    let other = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let other = other.unwrap();
    let (first, second) = (limiter.clone(), limiter.clone());
    other.spawn(async move { first.try_acquire(1).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    other.spawn(async move { second.try_acquire(1).await });
    let ours = start(&limiter, 1).await;
    other.shutdown_background();
    let decision = timeout(10 * SECOND, ours).await.expect("nobody hangs").unwrap();
    assert!(decision.is_some(), "and it is served");
}

#[tokio::test]
async fn a_refusal_that_is_certain_is_not_asked_for() {
    let server = RedisServer::start();
    let limits = limits(&server.url()).await;
    let limiter = limits.limiter("used", quota(3, HOUR));
    limiter.try_acquire(3).await.unwrap();
    let (before, start) = (server.calls("evalsha"), Instant::now());
    for _ in 0..1_000 {
        let wait = limiter.try_acquire(1).await.unwrap_err().retry_after().unwrap();
        assert!(wait <= HOUR && wait > HOUR - 20 * SECOND, "{wait:?}");
    }
    let asked = server.calls("evalsha") - before;
    assert!(asked <= start.elapsed().as_secs() + 1, "asked {asked} times");
}

#[tokio::test]
async fn what_this_process_changes_ends_a_refusal_at_once() {
    let server = RedisServer::start();
    let limits = limits(&server.url()).await;
    let limiter = limits.limiter("changing", quota(3, HOUR));
    limiter.try_acquire(3).await.unwrap();
    assert!(limiter.try_acquire(1).await.is_err());
    limiter.release(1).await.unwrap();
    assert_eq!(limiter.try_acquire(1).await.unwrap().remaining(), 0, "released");
    assert!(limiter.try_acquire(1).await.is_err());
    limiter.set_rate(quota(5, HOUR)).await.unwrap();
    assert_eq!(limiter.try_acquire(5).await.unwrap().remaining(), 0, "another rate");
    limiter.delete().await.unwrap();
    assert_eq!(limiter.try_acquire(3).await.unwrap().remaining(), 0, "deleted");
    assert!(limiter.try_acquire(1).await.is_err());
    let wider = limits.limiter("changing", quota(7, HOUR));
    assert_eq!(wider.try_acquire(7).await.unwrap().remaining(), 0, "configured otherwise");
}

#[tokio::test]
async fn what_another_process_changes_ends_a_refusal_within_a_second() {
    let server = RedisServer::start();
    let here = limits(&server.url()).await.limiter("both", quota(3, HOUR));
    let there = limits(&server.url()).await.limiter("both", quota(3, HOUR));
    here.try_acquire(3).await.unwrap();
    assert!(here.try_acquire(1).await.is_err());
    assert_eq!(there.release(1).await.unwrap(), 1);
    let start = Instant::now();
    while here.try_acquire(1).await.is_err() {
        assert!(start.elapsed() < 2 * SECOND, "it asks again after a second");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_wait_that_is_told_is_enough_however_often_it_is_asked_for() {
    let server = RedisServer::start();
    let per = Duration::from_millis(200);
    let limiter = limits(&server.url()).await.limiter("exact", quota(2, per));
    for _ in 0..5 {
        limiter.acquire(2).await.unwrap();
        let mut wait = None;
        for _ in 0..20 {
            // A machine that is busy may have come to the end of the wait.
            let Err(rejection) = limiter.try_acquire(2).await else {
                wait = None;
                break;
            };
            wait = rejection.retry_after();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
            assert!(limiter.try_acquire(2).await.is_ok(), "after {wait:?}");
        }
        tokio::time::sleep(per).await;
    }
}

#[tokio::test]
async fn those_who_wait_ask_once_for_each_grant_and_go_in_order() {
    let server = RedisServer::start();
    let limiter = limits(&server.url()).await.limiter("queue", quota(20, SECOND / 2));
    limiter.try_acquire(20).await.unwrap();
    let before = server.calls("evalsha");
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let limiter = limiter.clone();
        waiting.push(tokio::spawn(async move { limiter.acquire(1).await.unwrap() }));
    }
    let mut history = Vec::new();
    for waiter in waiting {
        history.push((at_ms(&waiter.await.unwrap()), 1));
    }
    let asked = server.calls("evalsha") - before;
    assert!(history.is_sorted(), "in the order they came");
    assert_kept(&history, 500, 20);
    assert!(asked <= 120, "{asked} calls for 100 grants");
}

#[tokio::test]
async fn a_grant_that_arrives_after_the_deadline_comes_back() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let yaml = "default: { rate: 10, per: 1h, on_store_error: reject }\n";
    let limits = Limits::builder().redis(proxy.url()).limits_yaml(yaml);
    let limits = limits.deadline(Duration::from_millis(200)).build().await.unwrap();
    let (one, other) = (limits.configured("one"), limits.configured("other"));
    let both = one.clone().and(other.clone());
    both.try_acquire(1).await.unwrap();
    for limiter in [one.clone(), both] {
        proxy.delay(Duration::from_millis(400));
        let rejection = limiter.try_acquire(5).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::StoreUnavailable);
        proxy.delay(Duration::ZERO);
        let start = Instant::now();
        loop {
            let free = (one.available_permits().await.ok(), other.available_permits().await.ok());
            if free == (Some(9), Some(9)) && start.elapsed() > Duration::from_millis(400) {
                break;
            }
            assert!(start.elapsed() < 5 * SECOND, "free after {:?}: {free:?}", start.elapsed());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What became of many calls, some of which were dropped.
#[derive(Default)]
struct Tally {
    /// (server time in ms, permits) of those that were told.
    granted: Vec<(u64, u64)>,
    /// Permits of those that were dropped, and may have been in flight.
    dropped: u64,
}

/// Calls of 1 to 5 permits by 256 callers at once, a tenth of them dropped at a random moment.
async fn hurry(limiter: &Limiter, calls: u64) -> Tally {
    const CALLERS: u64 = 256;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let limiter = limiter.clone();
        callers.spawn(async move {
            let (mut random, mut tally) = (Random::new(0x9E37_79B9 + caller), Tally::default());
            for _ in 0..calls / CALLERS {
                let permits = u32::try_from(1 + random.below(5)).unwrap();
                let call = limiter.try_acquire(permits.into());
                let told = if random.below(10) == 0 {
                    timeout(Duration::from_micros(random.below(3_000)), call).await.ok()
                } else {
                    Some(call.await)
                };
                match told {
                    Some(Ok(decision)) => tally.granted.push((at_ms(&decision), permits.into())),
                    Some(Err(refusal)) => tokio::time::sleep(refusal.retry_after().unwrap()).await,
                    None => tally.dropped += u64::from(permits),
                }
            }
            tally
        });
    }
    let mut all = Tally::default();
    while let Some(tally) = callers.join_next().await {
        let tally = tally.unwrap();
        all.granted.extend(tally.granted);
        all.dropped += tally.dropped;
    }
    all
}

/// A million with `RATELIMIT_FULL_LENGTH`.
fn calls() -> u64 {
    if env::var_os("RATELIMIT_FULL_LENGTH").is_some() { 1_000_000 } else { 40_000 }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_but_what_was_dropped_in_flight() {
    let server = RedisServer::start();
    let limiter = limits(&server.url()).await.limiter("lossless", quota(2_000_000_000, HOUR));
    let tally = hurry(&limiter, calls()).await;
    let granted: u64 = tally.granted.iter().map(|(_, permits)| permits).sum();
    let used = 2_000_000_000 - limiter.available_permits().await.unwrap();
    println!("granted {granted}, dropped {}, used {used}", tally.dropped);
    assert!(used >= granted, "{granted} were granted and {used} counted");
    assert!(used - granted <= tally.dropped, "{granted} granted, {} dropped", tally.dropped);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_window_holds_too_much_whoever_is_dropped() {
    let server = RedisServer::start();
    let per = Duration::from_millis(50);
    let limiter = limits(&server.url()).await.limiter("tight", quota(2_000, per));
    let tally = hurry(&limiter, calls()).await;
    println!("{} calls granted, {} permits dropped", tally.granted.len(), tally.dropped);
    assert_kept(&tally.granted, 50, 2_000);
    tokio::time::sleep(3 * per).await;
    assert_eq!(limiter.available_permits().await.unwrap(), 2_000, "and nothing is lost for good");
}
