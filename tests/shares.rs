//! What processes admit together while their store comes and goes, by a clock that they share.
#![allow(clippy::disallowed_methods, reason = "real servers live in real time")]

#[path = "shares/changes.rs"]
mod changes;

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use ratelimit_runtime::{Limiter, Limits, Quota, RateChange, Reason};
use tests::{
    Lateness, eventually,
    proxy::{Proxy, Then},
    redis_server::RedisServer,
    window::worst_window,
};
use tokio::task::JoinSet;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DEADLINE: Duration = Duration::from_secs(2);
/// How long a cut server is away, and then back.
const FLAP: Duration = Duration::from_millis(250);
const RATE: u64 = 50;

fn quota(rate: u64, per: Duration) -> Quota {
    Quota::new(rate, per).unwrap()
}

/// A process on this server; `instances` are counted from the heartbeats where they are not set.
async fn process(url: &str, instances: Option<u32>) -> Limits {
    let builder = Limits::builder().redis(url).no_limits_file().deadline(DEADLINE);
    match instances {
        Some(instances) => builder.instances(instances),
        None => builder,
    }
    .build()
    .await
    .unwrap()
}

/// Milliseconds after `start` at which a caller that tries all the time was admitted. Server and
/// processes have the machine's clock.
async fn load(limiter: Limiter, start: SystemTime, end: Duration) -> Vec<(u64, u64)> {
    let mut admitted = Vec::new();
    while start.elapsed().unwrap() < end {
        match limiter.try_acquire(1).await {
            Ok(decision) => {
                let at = decision.at().duration_since(start).unwrap_or_default();
                admitted.push((u64::try_from(at.as_millis()).unwrap(), 1));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
    admitted
}

/// What these processes admit in that time, in order.
async fn load_of(processes: &[Limits], quota: Quota, end: Duration) -> Vec<(u64, u64)> {
    let start = SystemTime::now();
    let mut callers = JoinSet::new();
    for limits in processes {
        callers.spawn(load(limits.limiter("shared", quota), start, end));
    }
    let mut admitted: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
    admitted.sort_unstable();
    admitted
}

/// Cuts the server and restores it, again and again, until dropped.
async fn flap(proxy: Arc<Proxy>) {
    loop {
        tokio::time::sleep(FLAP).await;
        proxy.cut();
        tokio::time::sleep(FLAP).await;
        proxy.restore();
    }
}

/// The most that a window holds which begins after this many milliseconds.
fn worst_after(admitted: &[(u64, u64)], ms: u64) -> u64 {
    worst_of(admitted, ms, 1000)
}

/// The same where server and processes count side by side: what both count has two times, a call apart, and more if
/// the machine was late.
fn worst_of_both_after(admitted: &[(u64, u64)], ms: u64, late: &Lateness) -> u64 {
    worst_of(admitted, ms, 980_u64.saturating_sub(late.most_ms()))
}

fn worst_of(admitted: &[(u64, u64)], ms: u64, per_ms: u64) -> u64 {
    let later: Vec<_> = admitted.iter().copied().filter(|(at, _)| *at >= ms).collect();
    worst_window(&later, per_ms).map_or(0, |window| window.permits)
}

/// 990 were admitted.
#[tokio::test(flavor = "multi_thread")]
async fn a_flapping_server_adds_one_quota_at_most() {
    let server = RedisServer::start();
    let proxy = Arc::new(Proxy::start(server.port()));
    let limits = process(&proxy.url(), None).await;
    let flapping = tokio::spawn(flap(Arc::clone(&proxy)));
    let admitted = load_of(&[limits], quota(RATE, SECOND), 10 * SECOND).await;
    flapping.abort();
    let all = admitted.len() as u64;
    println!("{all} of 500, worst window {}", worst_after(&admitted, 0));
    assert!(all <= 10 * RATE + RATE, "{all} of 500");
    assert!(all >= 5 * RATE, "and it goes on: {all} of 500");
}

/// Four processes admitted 200 a second, because none knew of the others.
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_know_of_each_other_share_a_quota() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let mut processes = Vec::new();
    for _ in 0..4 {
        processes.push(process(&proxy.url(), None).await);
    }
    // Their third heartbeats are after four seconds; on a busy machine the second ones may come before the last process.
    let before = load_of(&processes, quota(RATE, SECOND), 5 * SECOND).await;
    assert!(worst_after(&before, 0) <= RATE, "{}", worst_after(&before, 0));
    proxy.cut();
    let admitted = load_of(&processes, quota(RATE, SECOND), 5 * SECOND).await;
    let (all, worst) = (admitted.len() as u64, worst_after(&admitted, 1000));
    println!("{all} of 250, worst window {worst}");
    assert!(worst <= RATE, "{worst} in a window, {all} in all");
    assert!(all <= 6 * RATE, "{all}");
    assert!(all >= 3 * RATE, "{all}");
}

/// The first one to send a heartbeat after that counted on the whole quota, the second one on half of it, and so on.
#[tokio::test(flavor = "multi_thread")]
async fn processes_whose_server_lost_its_data_still_know_of_each_other() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let members = || server.cli::<usize>(&["ZCARD", "ratelimit:~members"]);
    let mut processes = Vec::new();
    for _ in 0..4 {
        processes.push(process(&proxy.url(), None).await);
        tokio::time::sleep(SECOND / 5).await;
    }
    // Their third heartbeats are after four seconds, the next ones after eight.
    tokio::time::sleep(SECOND * 5).await;
    assert_eq!(members(), 4);
    server.cli::<String>(&["FLUSHALL"]);
    eventually("each process sends a heartbeat", 20 * SECOND, || members() == 4);
    proxy.cut();
    let admitted = load_of(&processes, quota(RATE, SECOND), 4 * SECOND).await;
    let worst = worst_after(&admitted, 1000);
    assert!(worst <= RATE, "{worst} in a window");
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_a_flapping_server_share_a_quota() {
    let server = RedisServer::start();
    let proxy = Arc::new(Proxy::start(server.port()));
    let mut processes = Vec::new();
    for _ in 0..4 {
        processes.push(process(&proxy.url(), Some(4)).await);
    }
    let late = Lateness::watch(&server.url()).await;
    let flapping = tokio::spawn(flap(Arc::clone(&proxy)));
    let admitted = load_of(&processes, quota(RATE, SECOND), 10 * SECOND).await;
    flapping.abort();
    let (all, worst) = (admitted.len() as u64, worst_of_both_after(&admitted, 1000, &late));
    println!("{all} of 500, worst window {worst}");
    assert!(worst <= RATE, "{worst} in a window, {all} in all");
    assert!(all <= 10 * RATE + RATE, "{all}");
    assert!(all >= 5 * RATE, "{all}");
}

/// A call that came just before the server was found was decided before what this process had granted was
/// charged.
#[tokio::test]
async fn a_busy_process_whose_server_is_back_keeps_to_its_quota() {
    let server = RedisServer::start();
    let is_full = |full| {
        let most = if full { "1" } else { "0" };
        let _: String = server.cli(&["CONFIG", "SET", "maxmemory", most]);
    };
    let limits = process(&server.url(), Some(1)).await;
    for round in 0..4 {
        let limiter = limits.limiter(&format!("round:{round}"), quota(RATE, SECOND));
        is_full(true);
        while limits.health().store.is_ok() {
            let _ = limits.limiter("first to notice", quota(10, HOUR)).try_acquire(1).await;
        }
        // What has to be charged beside it.
        for n in 0..1000 {
            let other = limits.limiter(&format!("other:{round}:{n}"), quota(10, HOUR));
            other.try_acquire(1).await.unwrap();
        }
        let start = SystemTime::now();
        let mut callers: JoinSet<_> =
            (0..16).map(|_| load(limiter.clone(), start, SECOND * 9 / 10)).collect();
        callers.spawn(async move {
            while start.elapsed().unwrap() < SECOND * 9 / 10 {
                std::thread::sleep(Duration::from_millis(5));
                tokio::task::yield_now().await;
            }
            Vec::new()
        });
        tokio::time::sleep(SECOND / 4).await;
        is_full(false);
        let admitted = callers.join_all().await.concat();
        assert_eq!(admitted.len() as u64, RATE, "in round {round}");
        wait_until_back(&limiter).await;
    }
}

/// Each finds the server in its own time: the first one took what was free there, beside the shares of those
/// that looked for it still, 74 in a window.
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_find_their_server_again_share_a_quota() {
    let server = RedisServer::start();
    let proxies: Vec<_> = (0..4).map(|_| Proxy::start(server.port())).collect();
    let mut processes = Vec::new();
    for proxy in &proxies {
        processes.push(process(&proxy.url(), Some(4)).await);
    }
    let late = Lateness::watch(&server.url()).await;
    let cut = async {
        tokio::time::sleep(SECOND).await;
        proxies.iter().for_each(Proxy::cut);
        tokio::time::sleep(SECOND * 3 / 2).await;
        for proxy in &proxies {
            proxy.restore();
            tokio::time::sleep(SECOND / 4).await;
        }
    };
    let (admitted, ()) = tokio::join!(load_of(&processes, quota(RATE, SECOND), 8 * SECOND), cut);
    // What the others used is not known to each when the server is lost.
    let (all, worst) = (admitted.len() as u64, worst_of_both_after(&admitted, 2500, &late));
    println!("{all} of 400, worst window {worst}");
    assert!(worst <= RATE, "{worst} in a window, {all} in all");
    assert!(all >= 6 * RATE, "{all}");
}

async fn admitted_of(limiter: &Limiter, calls: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..calls {
        admitted += usize::from(limiter.try_acquire(1).await.is_ok());
    }
    admitted
}

/// Lets a process notice: what was sent just before that may have arrived, so it is not charged.
async fn notice_outage(limits: &Limits) {
    while limits.health().store.is_ok() {
        let _ = limits.limiter("first to notice", quota(10, HOUR)).try_acquire(1).await;
    }
}

async fn wait_until_back(limiter: &Limiter) {
    let start = Instant::now();
    loop {
        let degraded = match limiter.peek(1).await {
            Ok(decision) => decision.is_degraded(),
            Err(rejection) => rejection.decision().is_none_or(|found| found.is_degraded()),
        };
        if !degraded {
            return;
        }
        assert!(start.elapsed() < 5 * SECOND, "the server was not found again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn all_rules() -> [(&'static str, Quota); 3] {
    [
        ("sliding", quota(10, HOUR)),
        ("fixed", quota(10, 24 * HOUR).fixed_window()),
        ("bucket", quota(10, HOUR).token_bucket(10).unwrap()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_goes_on_from_what_is_left() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process(&proxy.url(), None).await;
    for (name, quota) in all_rules() {
        assert_eq!(admitted_of(&limits.limiter(name, quota), 4).await, 4, "{name}");
    }
    proxy.cut();
    for (name, quota) in all_rules() {
        let limiter = limits.limiter(name, quota);
        assert_eq!(limiter.peek(1).await.unwrap().remaining(), 6, "{name}");
        assert_eq!(admitted_of(&limiter, 20).await, 6, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_admitted_without_the_store_counts_when_it_is_back() {
    is_charged_once(None, 5 * SECOND).await;
}

/// A charge was not repeated, so all that an outage had granted was free again if the request was lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_admitted_without_the_store_counts_once_if_the_charge_is_lost() {
    for then in [Then::Lose, Then::Cut] {
        is_charged_once(Some(then), 15 * SECOND).await;
    }
}

/// The store learns within this time of what was admitted in an outage, even if the first two charges are lost.
async fn is_charged_once(lost: Option<Then>, within: Duration) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process(&proxy.url(), None).await;
    let other = process(&server.url(), None).await;
    if lost.is_some() {
        // The server has the script then.
        other.limiter("other", quota(10, HOUR)).charge(1).await.unwrap();
    }
    for (name, quota) in all_rules() {
        assert_eq!(admitted_of(&limits.limiter(name, quota), 3).await, 3, "{name}");
    }
    proxy.cut();
    notice_outage(&limits).await;
    for (name, quota) in all_rules() {
        assert_eq!(admitted_of(&limits.limiter(name, quota), 2).await, 2, "{name}");
    }
    proxy.restore();
    if let Some(then) = lost {
        proxy.swallow_replies_to("EVALSHA", 2, then);
    }
    for (name, quota) in all_rules() {
        let limiter = other.limiter(name, quota);
        let left = async || limiter.available_permits().await.unwrap();
        let start = Instant::now();
        // The process that counted makes no call of its own.
        while left().await != 5 {
            assert!(start.elapsed() < within, "{name}, {lost:?}: {}", left().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let limiter = limits.limiter(name, quota);
        wait_until_back(&limiter).await;
        assert_eq!(admitted_of(&limiter, 20).await, 5, "{name}, {lost:?}: charged once");
    }
    assert_eq!(proxy.traffic().swallowed, if lost.is_some() { 2 } else { 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_admitted_without_the_store_counts_once_the_store_is_configured_again() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = process(&proxy.url(), None).await;
    proxy.cut();
    notice_outage(&limits).await;
    let limiter = limits.limiter("shared", quota(10, HOUR));
    assert_eq!(admitted_of(&limiter, 4).await, 4);
    // Another program's key has the name of the limiter.
    let _: String = server.cli(&["SET", "shared", "other data"]);
    proxy.restore();
    eventually("the server is found", 5 * SECOND, || limits.health().store.is_ok());
    for _ in 0..3 {
        let rejection = limiter.try_acquire(1).await.unwrap_err();
        assert_eq!(rejection.reason(), Reason::StoreMisconfigured);
    }
    let _: i64 = server.cli(&["DEL", "shared"]);
    assert_eq!(admitted_of(&limiter, 20).await, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_the_charge_of_an_outage_keeps_to_its_deadline() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let (limits, other) =
        (process(&proxy.url(), Some(2)).await, process(&server.url(), None).await);
    let limiter = limits.limiter("shared", quota(100, HOUR));
    assert_eq!(admitted_of(&limiter, 1).await, 1);
    proxy.cut();
    notice_outage(&limits).await;
    assert_eq!(admitted_of(&limiter, 5).await, 5);
    // The charge and the call each open a connection, and take most of a deadline.
    proxy.delay(DEADLINE * 2 / 5);
    proxy.listen();
    while limits.health().store.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (machine, start) = (Lateness::of_threads(), Instant::now());
    assert_eq!(admitted_of(&limiter, 1).await, 1);
    machine.assert_within(DEADLINE * 5 / 4, start);
    proxy.restore();
    let limiter = other.limiter("shared", quota(100, HOUR));
    // What is granted after the deadline comes back, and what the policy granted is charged.
    is_left_at_last(&limiter, 93).await;
}

/// Waits until the store has this many permits: after a call that came late, what was granted here is charged with the next look
/// at it, ten seconds later.
async fn is_left_at_last(limiter: &Limiter, permits: u64) {
    let start = Instant::now();
    while limiter.available_permits().await.unwrap() != permits {
        assert!(start.elapsed() < 15 * SECOND, "{:?}", limiter.available_permits().await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_below_one_permit_is_one_in_a_longer_window() {
    let server = RedisServer::start();
    let mut processes = Vec::new();
    for _ in 0..4 {
        processes.push(process(&server.url(), Some(4)).await);
    }
    server.kill_hard();
    let admitted = load_of(&processes, quota(2, SECOND), 5 * SECOND).await;
    assert_eq!(admitted.len(), 12, "{admitted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_that_the_store_cannot_count_is_granted_no_more_with_each_call() {
    let server = RedisServer::start();
    let limits = process(&server.url(), None).await;
    let limiter = limits.limiter("lost", quota(5, HOUR));
    assert_eq!(admitted_of(&limiter, 2).await, 2);
    server.stop();
    assert_eq!(admitted_of(&limiter, 8).await, 3);
    // Back for a moment, and gone again before anything is charged.
    server.kill_hard();
    assert_eq!(admitted_of(&limiter, 8).await, 0);
    server.restart();
    eventually("the server is found", 5 * SECOND, || server.cli::<i64>(&["EXISTS", "lost"]) == 1);
    wait_until_back(&limiter).await;
    assert_eq!(admitted_of(&limiter, 8).await, 2, "an empty server knows of the outage alone");
}
