//! Futures of ours work under any executor: none at all, several in turn, paused time.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use ratelimit_runtime::{Limiter, Limits, Permit, Reason, Rejection, rate_limit};
use tests::{
    Lateness, poll_once, proxy::Proxy, redis_cluster::RedisCluster, redis_server::RedisServer,
};

use crate::world::{
    DEADLINE, HOUR, SECOND, current_thread, limits, ms, park_on, patient_limits, quota,
};

type Call<'a> = Pin<Box<dyn Future<Output = Result<Permit, Rejection>> + 'a>>;

#[rate_limit(key = "executors", rate = 2, per = "300ms")]
async fn annotated() -> u32 {
    7
}

#[test]
fn everything_works_outside_any_runtime() {
    let server = RedisServer::start();
    park_on(async {
        let limits = limits(&server.url(), "").await;
        let limiter = limits.limiter("outside", quota(3, ms(300)));
        for _ in 0..9 {
            assert!(!limiter.acquire(1).await.unwrap().is_degraded());
        }
        assert_eq!(limiter.try_acquire(1).await.unwrap_err().reason(), Reason::Limited);
        assert_eq!(limiter.release(2).await.unwrap(), 2);
        assert_eq!(limiter.available_permits().await.unwrap(), 2);
        assert!(limiter.exists().await.unwrap());
        limits
            .scope(async {
                for _ in 0..5 {
                    assert_eq!(annotated().await, 7);
                }
            })
            .await;
        assert!(limiter.delete().await.unwrap());
    });
}

/// The nodes were connected to in tasks of a runtime that was not there.
#[test]
fn a_cluster_is_reached_outside_any_runtime() {
    let cluster = RedisCluster::start();
    park_on(async {
        let limits = limits(&cluster.url(), "").await;
        for key in ["one", "two", "three"] {
            let permit = limits.limiter(key, quota(3, HOUR)).try_acquire(1).await.unwrap();
            assert!(!permit.is_degraded());
        }
    });
}

#[test]
fn buckets_wait_outside_any_runtime() {
    let server = RedisServer::start();
    let yaml = "limiters:\n  drip: { rate: 20, per: 1s, algorithm: leaky_bucket }\n";
    park_on(async {
        let limiter = limits(&server.url(), yaml).await.configured("drip");
        let start = Instant::now();
        for _ in 0..5 {
            limiter.acquire(1).await.unwrap();
        }
        assert!(start.elapsed() >= ms(190), "{:?}", start.elapsed());
    });
}

#[test]
fn the_embedded_store_waits_outside_any_runtime() {
    park_on(async {
        let limits = Limits::builder().memory().no_limits_file().build().await.unwrap();
        let limiter = limits.limiter("outside", quota(1, ms(100)));
        let start = Instant::now();
        for _ in 0..3 {
            limiter.acquire(1).await.unwrap();
        }
        assert!(start.elapsed() >= ms(190), "{:?}", start.elapsed());
    });
}

/// Its driver panicked instead, so the call waited without an end.
#[test]
fn a_wait_without_timers_panics_and_holds_no_place() {
    let (limits, plain) = (
        Limits::builder().memory().no_limits_file(),
        tokio::runtime::Builder::new_current_thread().build().unwrap(),
    );
    let limiter = park_on(limits.build()).unwrap().limiter("timers", quota(1, ms(100)));
    let caller = limiter.clone();
    let waiting = std::thread::spawn(move || {
        plain.block_on(caller.acquire(1)).unwrap();
        plain.block_on(caller.acquire(1)).map(drop)
    });
    let panic = waiting.join().unwrap_err();
    assert!(panic.downcast::<String>().unwrap().contains("timers are disabled"));
    park_on(limiter.acquire_timeout(1, ms(5000))).unwrap();
}

#[test]
fn a_server_that_is_gone_costs_the_deadline_outside_any_runtime() {
    let server = RedisServer::start();
    park_on(async {
        let limits = limits(&server.url(), "").await;
        let limiter = limits.limiter("outside", quota(1_000_000, HOUR));
        assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
        server.stop();
        let (machine, start) = (Lateness::of_threads(), Instant::now());
        assert!(limiter.try_acquire(1).await.unwrap().is_degraded());
        machine.assert_within(DEADLINE + ms(150), start);
        server.cont();
        let returned = Instant::now();
        while limiter.try_acquire(1).await.unwrap().is_degraded() {
            assert!(returned.elapsed() < 3 * SECOND, "it never came back");
            std::thread::sleep(ms(20));
        }
    });
}

#[test]
fn many_threads_without_a_runtime_share_the_engine() {
    let server = RedisServer::start();
    let limits = park_on(limits(&server.url(), ""));
    let limiter = limits.limiter("threads", quota(100_000, HOUR));
    std::thread::scope(|threads| {
        for _ in 0..16 {
            threads.spawn(|| {
                for _ in 0..50 {
                    assert!(!park_on(limiter.try_acquire(1)).unwrap().is_degraded());
                }
            });
        }
    });
    assert_eq!(park_on(limiter.available_permits()).unwrap(), 100_000 - 800);
}

#[test]
fn a_call_may_be_started_in_one_executor_and_finished_in_another() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let (first, second) = (current_thread(), current_thread());
    let limits = first.block_on(limits(&proxy.url(), ""));
    let limiter = limits.limiter("moves", quota(1_000, HOUR));
    for runtime in [&first, &second] {
        assert!(!runtime.block_on(limiter.try_acquire(1)).unwrap().is_degraded());
    }
    assert!(!park_on(limiter.try_acquire(1)).unwrap().is_degraded());
    proxy.delay(ms(20));
    // Started in a runtime, finished in another one, while the first is idle.
    let mut call = Box::pin(limiter.try_acquire(1));
    first.block_on(async { assert!(poll_once(call.as_mut()).is_none()) });
    assert!(!second.block_on(call).unwrap().is_degraded());
    // Started in a runtime, finished outside of any.
    let mut call = Box::pin(limiter.try_acquire(1));
    first.block_on(async { assert!(poll_once(call.as_mut()).is_none()) });
    assert!(!park_on(call).unwrap().is_degraded());
    // Started outside, finished in a runtime.
    let mut call = Box::pin(limiter.try_acquire(1));
    assert!(poll_once(call.as_mut()).is_none());
    assert!(!second.block_on(call).unwrap().is_degraded());
    // Started in a runtime that ends.
    let mut call = Box::pin(limiter.try_acquire(1));
    first.block_on(async { assert!(poll_once(call.as_mut()).is_none()) });
    drop(first);
    assert!(!second.block_on(call).unwrap().is_degraded());
    assert!(!second.block_on(limiter.try_acquire(1)).unwrap().is_degraded());
}

#[test]
fn a_wait_may_be_started_in_one_executor_and_finished_in_another() {
    let server = RedisServer::start();
    let redis = park_on(limits(&server.url(), ""));
    let memory = Limits::builder().memory().no_limits_file();
    let memory = current_thread().block_on(memory.build()).unwrap();
    for limits in [redis, memory] {
        let limiter = limits.limiter("moves", quota(1, ms(150)));
        let wait = || -> Call<'_> { Box::pin(limiter.acquire(1)) };
        park_on(wait()).unwrap();
        let advance = |call: &mut Call<'_>| {
            current_thread().block_on(async {
                for _ in 0..5 {
                    assert!(poll_once(call.as_mut()).is_none());
                    tokio::time::sleep(ms(2)).await;
                }
            });
        };
        let mut call = wait();
        advance(&mut call);
        park_on(call).unwrap();
        let mut call = wait();
        advance(&mut call);
        advance(&mut call);
        current_thread().block_on(call).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn paused_time_does_not_time_calls_out() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let limits = limits(&proxy.url(), "").await;
    let limiter = limits.limiter("paused", quota(100, HOUR));
    for nth in 0..20 {
        if nth == 10 {
            proxy.delay(ms(20));
        }
        let decision = limiter.try_acquire(1).await.unwrap();
        assert!(!decision.is_degraded(), "call {nth}");
        assert_eq!(decision.remaining(), 99 - nth);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_redis_takes_real_time_although_time_is_paused() {
    let server = RedisServer::start();
    let limits = limits(&server.url(), "").await;
    let limiter = limits.limiter("paused", quota(2, ms(200)));
    let start = Instant::now();
    for _ in 0..6 {
        assert!(!limiter.acquire(1).await.unwrap().is_degraded());
    }
    let took = start.elapsed();
    assert!(took >= ms(390), "{took:?}");
    let calls = server.calls("evalsha");
    assert!(calls < 30, "{calls} calls for 6 permits");
}

#[tokio::test]
async fn time_that_is_paused_later_does_not_time_calls_out() {
    let server = RedisServer::start();
    let limiter = limits(&server.url(), "").await.limiter("paused", quota(100, HOUR));
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    tokio::time::pause();
    for _ in 0..5 {
        assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    }
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
    tokio::time::resume();
    assert!(!limiter.try_acquire(1).await.unwrap().is_degraded());
}

/// Tokio has no context in a thread that drops its last values, and panicked.
#[test]
fn a_call_while_a_thread_ends_is_decided() {
    struct AtTheEnd(Limiter, mpsc::Sender<bool>);

    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            let call = AssertUnwindSafe(|| park_on(self.0.try_acquire(1)).is_ok());
            self.1.send(catch_unwind(call).is_ok_and(|granted| granted)).unwrap();
        }
    }

    thread_local!(static LAST: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) });

    let server = RedisServer::start();
    let limits = park_on(patient_limits(&server.url()));
    let limiter = limits.limiter("x", quota(5, HOUR));
    let (granted, all) = mpsc::channel();
    for _ in 0..5 {
        let last = AtTheEnd(limiter.clone(), granted.clone());
        let thread = thread::spawn(|| {
            LAST.set(Some(last));
            // Values are dropped in the reverse order of their first use.
            drop(current_thread().enter());
        });
        thread.join().unwrap();
    }
    drop(granted);
    assert_eq!(all.iter().collect::<Vec<_>>(), [true; 5]);
}
