//! A runtime that ends, idles or blocks, and a future that is never polled again: each harms only
//! its own callers.

use std::{
    pin::pin,
    thread,
    time::{Duration, Instant},
};

use ratelimit_runtime::{Limiter, Limits};
use tests::{
    eventually, poll_once,
    proxy::{Proxy, Then},
    redis_server::RedisServer,
};
use tokio::{
    runtime::Runtime,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::world::{
    ALONE, DEADLINE, HOUR, SECOND, current_thread, limits, ms, patient_limits, quota,
};

/// How much later than its deadline a call may end.
const SLACK: Duration = ms(100);

async fn is_regular(limiter: &Limiter) -> bool {
    limiter.try_acquire(1).await.is_ok_and(|decision| !decision.is_degraded())
}

/// Lets a runtime see the server fail, then does this to it while the server returns.
fn recovers_after(retire: impl FnOnce(Runtime) -> Option<Runtime>) {
    let _alone = ALONE.blocking_lock();
    let server = RedisServer::start();
    let (first, second) = (current_thread(), current_thread());
    let limits = first.block_on(limits(&server.url(), ""));
    let limiter = limits.limiter("x", quota(1_000_000, HOUR));
    assert!(first.block_on(is_regular(&limiter)));
    server.kill_hard();
    assert!(!first.block_on(is_regular(&limiter)));
    let retired = retire(first);
    server.restart();
    let returned = Instant::now();
    while !second.block_on(is_regular(&limiter)) {
        assert!(returned.elapsed() < ms(1_500), "the server is back, and the calls are not");
        thread::sleep(ms(20));
    }
    drop(retired);
}

#[test]
fn a_server_is_found_again_although_the_runtime_that_missed_it_ended() {
    recovers_after(|runtime| {
        drop(runtime);
        None
    });
}

#[test]
fn a_server_is_found_again_although_the_runtime_that_missed_it_is_never_driven() {
    recovers_after(Some);
}

/// Makes a hundred calls meanwhile, each of which ends in time: on a busy machine a timer is late, too.
async fn others_end_in_time(limiter: &Limiter) {
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let limiter = limiter.clone();
        callers.spawn(async move {
            for _ in 0..25 {
                let call = timeout(DEADLINE + SLACK, limiter.try_acquire(1));
                call.await.expect("a call ends at its deadline").unwrap();
                sleep(ms(2)).await;
            }
        });
    }
    callers.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_that_is_polled_once_and_kept_holds_nobody_up() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let limits = limits(&server.url(), "").await;
    let limiter = limits.limiter("kept", quota(1_000_000, HOUR));
    let mut kept = pin!(limiter.acquire(1));
    // Another thread may have made the call by the time this one looks.
    let at_once = poll_once(kept.as_mut());
    others_end_in_time(&limiter).await;
    let decision = match at_once {
        Some(decision) => decision,
        None => kept.await,
    };
    assert!(!decision.unwrap().is_degraded(), "its reply waits for it");
}

#[test]
fn a_future_of_a_runtime_that_is_not_driven_holds_nobody_up() {
    let _alone = ALONE.blocking_lock();
    let server = RedisServer::start();
    let (idle, other) = (current_thread(), current_thread());
    let limiter = other.block_on(limits(&server.url(), "")).limiter("kept", quota(1_000_000, HOUR));
    idle.block_on(async {
        let mut kept = Box::pin(limiter.acquire(1));
        assert!(poll_once(kept.as_mut()).is_none());
        std::mem::forget(kept);
    });
    other.block_on(others_end_in_time(&limiter));
    assert!(other.block_on(is_regular(&limiter)));
}

/// Blocks a thread of a runtime while its call is in flight and others call.
fn beside_a_blocked_thread(limiter: &Limiter, blocked: &Runtime, other: &Runtime) {
    let blocking = limiter.clone();
    let block = blocked.spawn(async move {
        let mut call = Box::pin(blocking.try_acquire(1));
        let at_once = poll_once(call.as_mut());
        thread::sleep(4 * DEADLINE);
        match at_once {
            Some(decision) => decision,
            None => call.await,
        }
    });
    other.block_on(async {
        sleep(ms(5)).await;
        others_end_in_time(limiter).await;
    });
    // Its own answer is late and no more than that.
    blocked.block_on(block).unwrap().unwrap();
}

#[test]
fn a_blocked_thread_of_another_runtime_holds_nobody_up() {
    let _alone = ALONE.blocking_lock();
    let server = RedisServer::start();
    let build = |workers| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(workers).enable_all().build().unwrap()
    };
    let (blocked, other) = (build(1), build(2));
    let limits = other.block_on(limits(&server.url(), ""));
    let limiter = limits.limiter("blocked", quota(1_000_000, HOUR));
    assert!(blocked.block_on(is_regular(&limiter)));
    beside_a_blocked_thread(&limiter, &blocked, &other);
    assert!(other.block_on(is_regular(&limiter)), "a stalled runtime closes no gate");
}

#[test]
fn a_blocked_thread_holds_up_no_other_thread_of_its_runtime() {
    let _alone = ALONE.blocking_lock();
    let server = RedisServer::start();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(3).enable_all().build().unwrap();
    let limits = runtime.block_on(limits(&server.url(), ""));
    let limiter = limits.limiter("blocked", quota(1_000_000, HOUR));
    assert!(runtime.block_on(is_regular(&limiter)));
    beside_a_blocked_thread(&limiter, &runtime, &runtime);
}

/// Connections the server has now, that of the question not counted.
fn connections(server: &RedisServer) -> usize {
    let clients: String = server.cli(&["CLIENT", "LIST"]);
    clients.lines().count() - 1
}

#[test]
fn a_runtime_for_each_call_neither_degrades_nor_leaks() {
    let _alone = ALONE.blocking_lock();
    let server = RedisServer::start();
    let limits = current_thread().block_on(patient_limits(&server.url()));
    let limiter = limits.limiter("x", quota(1_000_000, HOUR));
    let calls = 1_000;
    for nth in 0..calls {
        let decision = current_thread().block_on(limiter.try_acquire(1)).unwrap();
        assert!(!decision.is_degraded(), "call {nth}");
        assert_eq!(decision.remaining(), 999_999 - nth, "each call counts once");
    }
    eventually("their connections are closed", 5 * SECOND, || connections(&server) <= 1);
}

#[test]
fn a_runtime_that_ends_in_the_middle_of_calls_is_no_error_for_another() {
    let _alone = ALONE.blocking_lock();
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let other = current_thread();
    let limits: Limits = other.block_on(patient_limits(&proxy.url()));
    let limiter = limits.limiter("x", quota(1_000_000, HOUR));
    assert!(other.block_on(is_regular(&limiter)));
    proxy.delay(ms(20));
    for _ in 0..20 {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let ending = builder.worker_threads(2).enable_all().build().unwrap();
        for _ in 0..50 {
            let limiter = limiter.clone();
            ending.spawn(async move { while limiter.try_acquire(1).await.is_ok() {} });
        }
        thread::sleep(ms(30));
        ending.shutdown_background();
        assert!(other.block_on(is_regular(&limiter)));
    }
}

/// Only the connection of the call that closed the gate was replaced, so each runtime caused an outage of its own.
#[test]
fn connections_that_fail_together_are_replaced_together() {
    const RUNTIMES: u64 = 6;

    let _alone = ALONE.blocking_lock();
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = current_thread().block_on(limits(&proxy.url(), ""));
    let calls = |n| {
        let limiter = limits.limiter(&format!("of-{n}"), quota(1_000_000, HOUR));
        current_thread().block_on(async {
            let (started, mut degraded) = (Instant::now(), None);
            while started.elapsed() < 6 * SECOND {
                if !is_regular(&limiter).await {
                    degraded = Some(Instant::now());
                }
                sleep(ms(10)).await;
            }
            degraded.expect("a call without a reply")
        })
    };
    thread::scope(|threads| {
        let calling: Vec<_> = (0..RUNTIMES).map(|n| threads.spawn(move || calls(n))).collect();
        thread::sleep(SECOND / 2);
        proxy.swallow_replies_to("EVALSHA", RUNTIMES, Then::Hang);
        let failed = Instant::now();
        for calling in calling {
            let degraded_for = calling.join().unwrap() - failed;
            assert!(degraded_for < SECOND, "{degraded_for:?}");
        }
    });
}

/// Each runtime found with its own next call that its connection had failed, and caused an outage.
#[test]
fn connections_of_idle_runtimes_that_failed_are_replaced_too() {
    let _alone = ALONE.blocking_lock();
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let runtimes = [(); 3].map(|()| current_thread());
    // While the first call waits so long, the engine opens a connection for its own calls, before the gate closes.
    let limits = Limits::builder().redis(proxy.url()).no_limits_file().deadline(SECOND);
    let limits = runtimes[0].block_on(limits.build()).unwrap();
    let limiter = limits.limiter("x", quota(1_000_000, HOUR));
    assert!(runtimes.iter().all(|runtime| runtime.block_on(is_regular(&limiter))));
    proxy.forget_connections();
    assert!(!runtimes[0].block_on(is_regular(&limiter)));
    eventually("the server is found", 5 * SECOND, || limits.health().is_ok());
    assert!(runtimes.iter().all(|runtime| runtime.block_on(is_regular(&limiter))));
}

#[test]
fn what_a_call_reserved_is_given_back_when_its_runtime_ends() {
    let (here, other) = (current_thread(), current_thread());
    let limits = here.block_on(Limits::builder().memory().no_limits_file().build()).unwrap();
    let limiter = limits.limiter("bucket", quota(20, HOUR).token_bucket(20).unwrap());
    let all = here.block_on(limiter.acquire(20)).unwrap();
    let wait_of_all = || here.block_on(limiter.peek(20)).unwrap_err().retry_after().unwrap();
    let waits = other.block_on(async { timeout(ms(100), limiter.acquire(3)).await.is_err() });
    assert!(waits && wait_of_all() > HOUR, "a slot is reserved");
    drop(other);
    eventually("the slot is given back", 5 * SECOND, || wait_of_all() <= HOUR);
    assert_eq!(here.block_on(all.give_back()).unwrap(), 20);
}
